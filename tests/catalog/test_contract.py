"""What `ports.Catalog` promises, asked of every implementation; then what only a real metastore and Spark can show."""

from __future__ import annotations

import dataclasses
import itertools
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from compactor.aws.client import ClientConfig
from compactor.catalog.glue.catalog import GlueCatalog
from compactor.catalog.hive import HiveCatalog
from compactor.core.catalog.ddl import Column, NativeDef, PartitionDef, TableDef, ViewDef
from compactor.core.model.errors import CatalogRefused
from compactor.ports import Catalog
from tests.parts.memory_catalog import MemoryCatalog

NUMBERS = itertools.count(1)
glue = cache(lambda url: GlueCatalog(ClientConfig("us-east-1", url)))
"""One for all tests: a connection takes longer than most of them."""
COLUMNS = (Column("id", "bigint", "the key"), Column("amount", "decimal(10,2)"))
TEXT = "SELECT `id`, `amount` FROM `{0}`.`t_base`"


@pytest.fixture(params=["memory", "glue", pytest.param("hive", marks=(pytest.mark.spark, pytest.mark.slow))])
def catalog(request: pytest.FixtureRequest) -> Catalog:
    """Every implementation in turn."""
    if request.param == "glue":
        return glue(request.getfixturevalue("server").url)
    return MemoryCatalog() if request.param == "memory" else HiveCatalog(request.getfixturevalue("hive_session"))


@pytest.fixture
def database(catalog: Catalog, tmp_path: Path) -> str:
    """A new database."""
    name = f"db{next(NUMBERS)}"
    catalog.ensure_database(name, str(tmp_path / "db"))
    return name


def table(database: str, root: Path, **changes: Any) -> TableDef:
    """A table as the flows define it."""
    keys = (Column("base_version", "string"), Column("segment", "string"))
    made = TableDef(database, "t_base", COLUMNS, keys, str(root / "base"), {"compactor.uuid": "u1"}, comment="the bulk")
    return dataclasses.replace(made, **changes)


def parts(root: Path, *numbers: int) -> list[PartitionDef]:
    """Partitions in folders of their own."""
    return [PartitionDef((f"v{n}", f"s{n}"), str(root / f"x{n}"), rows=n * 10, size=n * 1000, files=n) for n in numbers]


def view(database: str, **changes: Any) -> ViewDef:
    """A view over the table."""
    made = ViewDef(database, "t", TEXT.format(database), COLUMNS, {"compactor.uuid": "u1", "compactor.version": "1"})
    return dataclasses.replace(made, **changes)


def test_an_existing_database_is_left_as_it_is(catalog: Catalog, database: str, tmp_path: Path) -> None:
    catalog.ensure_database(database, str(tmp_path / "elsewhere"))
    catalog.ensure_database(database.upper(), str(tmp_path / "elsewhere"))
    catalog.ensure_table(table(database, tmp_path))


def test_a_table_needs_its_database(catalog: Catalog, tmp_path: Path) -> None:
    with pytest.raises(CatalogRefused):
        catalog.ensure_table(table("missing_database", tmp_path))
    with pytest.raises(CatalogRefused):
        catalog.replace_view(view("missing_database"))


def test_what_is_registered_can_be_asked_for(catalog: Catalog, database: str, tmp_path: Path) -> None:
    """A table as it was asked for; None for nothing and for a view."""
    assert (catalog.has_database(database.upper()), catalog.has_database("missing_database")) == (True, False)
    assert catalog.table(database, "t_base") is None
    catalog.ensure_table(table(database, tmp_path))
    catalog.ensure_table(table(database, tmp_path, name="t_landed", format="avro"))
    catalog.replace_view(view(database))
    assert catalog.table(database, "T_base") == table(database, tmp_path)
    assert catalog.table(database, "t_landed") == table(database, tmp_path, name="t_landed", format="avro")
    assert catalog.table(database, "t") is None
    assert catalog.table("missing_database", "t_base") is None


@pytest.mark.parametrize("form", ["parquet", "avro", "json"])
def test_every_call_may_be_repeated(catalog: Catalog, database: str, tmp_path: Path, form: str) -> None:
    for _ in range(2):
        catalog.ensure_table(table(database, tmp_path, format=form))
        catalog.ensure_partitions(database, "t_base", parts(tmp_path, 1, 2))
        catalog.replace_view(view(database))
    assert catalog.partitions(database, "t_base") == parts(tmp_path, 1, 2)
    assert catalog.view(database, "t") == view(database)
    for _ in range(2):
        catalog.drop_partitions(database, "t_base", [("v1", "s1"), ("v9", "s9")])
    assert catalog.partitions(database, "t_base") == parts(tmp_path, 2)


def test_columns_may_be_appended_and_commented(catalog: Catalog, database: str, tmp_path: Path) -> None:
    catalog.ensure_table(table(database, tmp_path))
    longer = (Column("id", "bigint", "another word"), COLUMNS[1], Column("name", "string", "it's `new`; \\ ünï"))
    catalog.ensure_table(table(database, tmp_path, columns=longer))
    with pytest.raises(CatalogRefused, match="column 3 is name string in the catalog, requested is none"):
        catalog.ensure_table(table(database, tmp_path))


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param((COLUMNS[1], COLUMNS[0]), id="another order"),
        pytest.param((COLUMNS[0], Column("amount", "decimal(12,2)")), id="another type"),
        pytest.param((COLUMNS[0], Column("sum", "decimal(10,2)")), id="another name"),
        pytest.param((COLUMNS[0],), id="one less"),
    ],
)
def test_any_other_change_of_columns_is_refused(catalog: Catalog, database: str, tmp_path: Path, columns: tuple[Column, ...]) -> None:
    catalog.ensure_table(table(database, tmp_path))
    with pytest.raises(CatalogRefused, match="can only be appended"):
        catalog.ensure_table(table(database, tmp_path, columns=columns))


def test_a_table_elsewhere_or_of_another_kind_is_refused(catalog: Catalog, database: str, tmp_path: Path) -> None:
    catalog.ensure_table(table(database, tmp_path))
    with pytest.raises(CatalogRefused, match="registered at"):
        catalog.ensure_table(table(database, tmp_path / "other"))
    with pytest.raises(CatalogRefused, match="files"):
        catalog.ensure_table(table(database, tmp_path, format="avro"))
    with pytest.raises(CatalogRefused, match="expected partition columns"):
        catalog.ensure_table(table(database, tmp_path, partition_columns=(Column("segment", "string"),)))


def test_spellings_of_one_place_are_one_place(catalog: Catalog, database: str, tmp_path: Path) -> None:
    catalog.ensure_table(table(database, tmp_path))
    spellings = [f"file:{tmp_path}/base", f"file://{tmp_path}/base/", f"{tmp_path}//base/"]
    for location in spellings:
        catalog.ensure_table(table(database, tmp_path, location=location))
    catalog.ensure_partitions(database, "t_base", [PartitionDef(("v1", "s"), location) for location in spellings[:1]])
    catalog.ensure_partitions(database, "t_base", [PartitionDef(("v1", "s"), location) for location in spellings[1:2]])
    (found,) = catalog.partitions(database, "t_base")
    assert (found.values, found.location) == (("v1", "s"), f"{tmp_path}/base")


def test_tables_and_views_are_not_mixed_up(catalog: Catalog, database: str, tmp_path: Path) -> None:
    catalog.ensure_table(table(database, tmp_path))
    catalog.replace_view(view(database))
    with pytest.raises(CatalogRefused, match="found a view"):
        catalog.ensure_table(table(database, tmp_path, name="t"))
    with pytest.raises(CatalogRefused, match="found a view"):
        catalog.ensure_partitions(database, "t", parts(tmp_path, 1))
    with pytest.raises(CatalogRefused, match="expected a view"):
        catalog.view(database, "t_base")
    with pytest.raises(CatalogRefused, match="expected a view"):
        catalog.replace_view(view(database, name="t_base"))


def test_what_is_missing(catalog: Catalog, database: str, tmp_path: Path) -> None:
    assert catalog.partitions(database, "nothing") == []
    assert catalog.partitions("nowhere", "nothing") == []
    assert catalog.view(database, "nothing") is None
    assert catalog.view("nowhere", "nothing") is None
    catalog.drop_partitions(database, "nothing", [("v1", "s1")])
    with pytest.raises(CatalogRefused, match="found nothing"):
        catalog.ensure_partitions(database, "nothing", parts(tmp_path, 1))


def test_a_partition_at_another_place_is_refused_and_nothing_registered(catalog: Catalog, database: str, tmp_path: Path) -> None:
    catalog.ensure_table(table(database, tmp_path))
    catalog.ensure_partitions(database, "t_base", parts(tmp_path, 1))
    moved = dataclasses.replace(parts(tmp_path, 1)[0], location=str(tmp_path / "moved"))
    with pytest.raises(CatalogRefused, match="registered at"):
        catalog.ensure_partitions(database, "t_base", [*parts(tmp_path, 2), moved])
    assert catalog.partitions(database, "t_base") == parts(tmp_path, 1)


def test_odd_values_and_statistics_that_come_later(catalog: Catalog, database: str, tmp_path: Path) -> None:
    catalog.ensure_table(table(database, tmp_path))
    values = ["%2F", "ä b", "x'y\"z"]
    odd = [PartitionDef(("c-1 a=b/c:%", value), str(tmp_path / "p" / str(n))) for n, value in enumerate(values)]
    catalog.ensure_partitions(database, "t_base", odd)
    assert catalog.partitions(database, "t_base") == sorted(odd, key=lambda partition: partition.values)
    counted = dataclasses.replace(odd[0], rows=5, size=6, files=1)
    catalog.ensure_partitions(database, "t_base", [counted])
    catalog.ensure_partitions(database, "t_base", [odd[0]])
    assert counted in catalog.partitions(database, "t_base")
    catalog.drop_partitions(database, "t_base", [partition.values for partition in odd])
    assert catalog.partitions(database, "t_base") == []


def test_a_view_is_replaced_whole(catalog: Catalog, database: str) -> None:
    catalog.replace_view(view(database))
    other = view(
        database,
        text=f"SELECT `a`, `id` FROM `{database}`.`t_base` -- it's ünï",
        columns=(Column("a", "array<struct<x:int,y:string>>", "c" * 255), Column("id", "string", 'say "hi"')),
        properties={"compactor.uuid": "u1", "compactor.version": "2"},
    )
    catalog.replace_view(other)
    assert catalog.view(database, "t") == other
    shorter = view(database, columns=(Column("id", "bigint"),), properties=other.properties)
    catalog.replace_view(shorter)
    assert catalog.view(database, "t") == shorter
    catalog.replace_view(view(database, columns=(Column("id", "bigint", "läng " * 100),), properties=other.properties))
    kept = catalog.view(database, "t")
    assert kept is not None
    assert 250 < len(kept.columns[0].comment.encode()) <= 255


def test_a_view_of_two_thousand_columns(catalog: Catalog, database: str) -> None:
    """Its text has more than the 32,700 characters that Hive's schema for Derby allows."""
    names = [f"a_column_with_number_{number}" for number in range(2000)]
    text = ", ".join(f"`__b`.`{name}` AS `{name}`" for name in names)
    wide = view(database, text=f"SELECT {text} FROM `{database}`.`t_base` `__b`", columns=tuple(Column(name, "bigint") for name in names))
    catalog.replace_view(wide)
    assert catalog.view(database, "t") == wide


def test_threads_may_share_a_catalog(catalog: Catalog, database: str, tmp_path: Path) -> None:
    catalog.ensure_table(table(database, tmp_path))
    with ThreadPoolExecutor(4) as pool:
        for _ in pool.map(lambda n: catalog.ensure_partitions(database, "t_base", parts(tmp_path, n)), range(1, 9)):
            pass
    assert sorted(catalog.partitions(database, "t_base"), key=lambda each: each.rows or 0) == parts(tmp_path, *range(1, 9))


@pytest.fixture
def hive(hive_session: Any) -> HiveCatalog:
    """The catalog whose Spark session we look through."""
    return HiveCatalog(hive_session)


@pytest.fixture
def spark(hive_session: Any) -> Any:
    """The session."""
    return hive_session


@pytest.fixture
def home(hive: HiveCatalog, tmp_path: Path) -> tuple[str, Path]:
    """A new database and its folder."""
    name = f"real{next(NUMBERS)}"
    hive.ensure_database(name, str(tmp_path / "db"))
    return name, tmp_path


ANTI_JOIN = """SELECT `b`.`id` AS `id`, `b`.`amount` AS `amount` FROM `{0}`.`t_base` `b` WHERE `b`.`base_version` = '{1}'
AND NOT EXISTS (SELECT 1 FROM `{0}`.`t_delta` `d` WHERE `d`.`delta_version` = '{2}' AND `d`.`id` = `b`.`id`)
UNION ALL SELECT `d`.`id` AS `id`, `d`.`amount` AS `amount` FROM `{0}`.`t_delta` `d`
WHERE `d`.`delta_version` = '{2}' AND `d`.`_op` <> 'd'"""


def totals(spark: Any, database: str) -> tuple[int, str]:
    """Rows and sum, as the view shows them."""
    row = spark.sql(f"SELECT count(*), cast(sum(amount) AS string) FROM {database}.t").first()
    return row[0], row[1]


@pytest.mark.slow
@pytest.mark.spark
def test_spark_reads_the_view_before_and_after_it_is_replaced(hive: HiveCatalog, spark: Any, home: tuple[str, Path]) -> None:
    name, root = home
    rows = "SELECT id, cast(id AS decimal(10,2)) AS amount"
    spark.sql(f"{rows} FROM range(10)").write.parquet(str(root / "base1"))
    spark.sql(f"{rows}, 'u' AS _op FROM range(2) WHERE id = 0").write.parquet(str(root / "delta1"))
    spark.sql("SELECT id, cast(100 AS decimal(10,2)) AS amount, if(id = 1, 'd', 'u') AS _op FROM range(2)").write.parquet(str(root / "delta2"))
    assert not [path for path in root.rglob("*") if path.suffix == ".crc" or path.name.startswith("_")]
    hive.ensure_table(table(name, root, partition_columns=(Column("base_version", "string"),)))
    hive.ensure_table(
        table(
            name,
            root,
            name="t_delta",
            columns=(*COLUMNS, Column("_op", "string")),
            partition_columns=(Column("delta_version", "string"),),
            location=str(root / "delta"),
        )
    )
    hive.ensure_partitions(name, "t_base", [PartitionDef(("b1",), str(root / "base1"), 10, 999, 1)])
    hive.ensure_partitions(name, "t_delta", [PartitionDef((f"d{n}",), str(root / f"delta{n}"), n, 9, 1) for n in (1, 2)])
    hive.replace_view(view(name, text=ANTI_JOIN.format(name, "b1", "d1")))
    assert totals(spark, name) == (10, "45.00")
    hive.replace_view(view(name, text=ANTI_JOIN.format(name, "b1", "d2"), columns=(Column("id", "bigint", "ünï"), COLUMNS[1])))
    assert totals(spark, name) == (9, "144.00")
    told = {row["col_name"]: row for row in spark.sql(f"DESCRIBE TABLE {name}.t").collect()}
    assert (told["id"]["data_type"], told["id"]["comment"]) == ("bigint", "ünï")
    assert spark.sql(f"SELECT count(*) FROM {name}.t_base WHERE base_version = 'b1' AND id > 3").first()[0] == 6


@pytest.mark.slow
@pytest.mark.spark
def test_the_metastore_keeps_our_statistics(hive: HiveCatalog, spark: Any, home: tuple[str, Path]) -> None:
    name, root = home
    spark.range(3).write.parquet(str(root / "x1"))
    hive.ensure_table(table(name, root))
    hive.ensure_partitions(name, "t_base", parts(root, 1))
    told = hive._hive.read_all(hive._hive.client.getPartitionsByNames(name, "t_base", ["base_version=v1/segment=s1"]))[0]["parameters"]
    assert {key: told.get(key) for key in ("numRows", "totalSize", "numFiles")} == {
        "numRows": "10",
        "totalSize": "1000",
        "numFiles": "1",
    }


@pytest.mark.slow
@pytest.mark.spark
def test_an_older_partition_gets_the_columns_of_its_table(hive: HiveCatalog, home: tuple[str, Path]) -> None:
    name, root = home
    hive.ensure_table(table(name, root))
    hive.ensure_partitions(name, "t_base", parts(root, 1))
    hive.ensure_table(table(name, root, columns=(*COLUMNS, Column("late", "string", "x"))))
    hive.ensure_partitions(name, "t_base", parts(root, 1, 2))
    found = hive._hive.read_all(
        hive._hive.client.getPartitionsByNames(name, "t_base", list(hive._hive.client.listPartitionNames(name, "t_base", -1)))
    )
    assert [[column["name"] for column in each["sd"]["cols"]] for each in found] == [["id", "amount", "late"]] * 2
    assert hive.partitions(name, "t_base") == parts(root, 1, 2)


@pytest.mark.slow
@pytest.mark.spark
def test_a_managed_table_and_what_spark_left_behind(hive: HiveCatalog, spark: Any, home: tuple[str, Path]) -> None:
    name, root = home
    spark.sql(f"CREATE TABLE {name}.managed (id bigint) STORED AS PARQUET")
    with pytest.raises(CatalogRefused, match="found a managed table"):
        hive.ensure_table(table(name, root, name="managed"))
    spark.sql(f"CREATE VIEW {name}.t (id COMMENT 'old') TBLPROPERTIES ('team' = 'blue') AS SELECT 1L AS id")
    hive.replace_view(view(name, text="SELECT 2L AS `id`, 'x' AS `name`", columns=(Column("id", "bigint"), Column("name", "string"))))
    assert spark.table(f"{name}.t").columns == ["id", "name"]
    kept = hive._hive.read(hive._hive.client.getTable(name, "t"))["parameters"]
    assert not [key for key in kept if key.startswith(("spark.sql.", "view."))]
    assert kept["team"] == "blue"


def native(database: str, root: Path, number: int, **changes: Any) -> NativeDef:
    """An Iceberg table that points to a metadata file."""
    made = NativeDef(database, "t_iceberg", COLUMNS, str(root / "i"), str(root / f"i/metadata/v{number}.metadata.json"), {"compactor.uuid": "u1"})
    return dataclasses.replace(made, **changes)


def test_the_pointer_of_an_iceberg_table_moves_only_from_where_it_is_expected(catalog: Catalog, database: str, tmp_path: Path) -> None:
    """Creating and moving are a compare-and-set: whoever expects an older pointer changes nothing."""
    assert catalog.native(database, "t_iceberg") is None
    first, second, third = (native(database, tmp_path, number) for number in (1, 2, 3))
    assert catalog.point(first, None)
    assert not catalog.point(second, None)
    assert catalog.native(database, "T_iceberg") == first
    assert catalog.point(second, first.metadata)
    assert not catalog.point(third, first.metadata)
    assert catalog.native(database, "t_iceberg") == second
    longer = dataclasses.replace(third, columns=(*COLUMNS, Column("name", "string")))
    assert catalog.point(longer, second.metadata)
    found = catalog.native(database, "t_iceberg")
    assert found is not None
    assert (found.metadata, found.columns[-1].name) == (third.metadata, "name")


def test_other_objects_are_no_iceberg_tables(catalog: Catalog, database: str, tmp_path: Path) -> None:
    """A view or a plain table of the name is refused, and an Iceberg table is no view."""
    catalog.ensure_table(table(database, tmp_path))
    catalog.replace_view(view(database))
    for name in ("t", "t_base"):
        with pytest.raises(CatalogRefused, match="expected an Iceberg table"):
            catalog.native(database, name)
    assert catalog.point(native(database, tmp_path, 1), None)
    with pytest.raises(CatalogRefused, match="expected a view"):
        catalog.view(database, "t_iceberg")
