"""The Glue catalog beyond the contract: two publishers at once, networks that fail, thousands of partitions, what it writes, what it says.

The server is moto's with Glue's own strictness added (`tests/parts/strict_glue.py`), behind a proxy that breaks requests.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from compactor.aws.client import ClientConfig, make_session
from compactor.catalog.glue import shapes
from compactor.catalog.glue.catalog import GlueCatalog
from compactor.catalog.recorded import RecordedCatalog
from compactor.core.catalog.ddl import Column
from compactor.core.catalog.dialect import PRESTO
from compactor.core.model.errors import CatalogRefused, Unavailable
from tests.catalog.test_contract import COLUMNS, NUMBERS, parts, table, view
from tests.flows.test_every_crash import DELIVERIES
from tests.oracle.lake import Lake
from tests.oracle.lake import table as lake_table
from tests.parts.proxy import ALWAYS, DELAY_SECONDS, Fault, Proxy
from tests.parts.s3 import Server

READ_SECONDS = 0.3


def catalog(url: str, seconds: float = 20.0, **reach: Any) -> GlueCatalog:
    """One of its own: nothing remembered."""
    patience = {"operation_seconds": seconds, "wait_seconds_min": 0.01, "wait_seconds_max": 0.05, "client_attempts": 1, "read_seconds": READ_SECONDS}
    return GlueCatalog(ClientConfig("us-east-1", url, **{**patience, **reach}))


@pytest.fixture
def plain(server: Server) -> Any:
    """boto3 itself."""
    return make_session().client("glue", endpoint_url=server.url, region_name="us-east-1")


@pytest.fixture(autouse=True)
def calm(proxy: Proxy) -> Iterator[None]:
    """The proxy as it should be, before and after."""
    proxy.plan()
    yield
    proxy.before = None
    proxy.plan()


@pytest.fixture
def database(server: Server, tmp_path: Path) -> str:
    """A new database."""
    name = f"glue{next(NUMBERS)}"
    catalog(server.url).ensure_database(name, str(tmp_path))
    return name


def numbered(database: str, version: int, **changes: Any) -> Any:
    """The view of a version."""
    return view(database, text=f"SELECT {version} AS `id`", properties={"compactor.uuid": "u1", "compactor.version": str(version)}, **changes)


def shown(there: GlueCatalog, database: str) -> int:
    """The version that the view shows."""
    found = there.view(database, "t")
    assert found is not None
    assert found.text == f"SELECT {found.properties['compactor.version']} AS `id`", "text and version are of one publish"
    return int(found.properties["compactor.version"])


# What the server must be, for the rest to mean something


def test_the_server_heeds_versions_batches_and_pages(plain: Any, server: Server, database: str, tmp_path: Path) -> None:
    """As Glue: a stale VersionId changes nothing, no batch is too large, no page is endless."""
    catalog(server.url).ensure_table(table(database, tmp_path))
    made = {"Name": "t_base"}
    there = {"DatabaseName": database, "TableName": "t_base"}
    assert plain.get_table(DatabaseName=database, Name="t_base")["Table"]["VersionId"] == "0"
    plain.update_table(DatabaseName=database, TableInput=made, VersionId="0", SkipArchive=False)
    assert len(plain.get_table_versions(**there)["TableVersions"]) == 2
    many = [{"Values": [str(number), "s"]} for number in range(101)]
    cases: list[tuple[str, Callable[[], Any]]] = [
        ("ConcurrentModification", lambda: plain.update_table(DatabaseName=database, TableInput=made, VersionId="0")),
        ("less than or equal to 100", lambda: plain.batch_create_partition(**there, PartitionInputList=many)),
        ("less than or equal to 25", lambda: plain.batch_delete_partition(**there, PartitionsToDelete=many)),
    ]
    for said, call in cases:
        with pytest.raises(ClientError, match=said):
            call()


# Two publishers


@pytest.mark.parametrize("there_before", [0, 1], ids=["first view", "replaced view"])
def test_a_publisher_paused_anywhere_never_shows_an_older_version(server: Server, proxy: Proxy, database: str, there_before: int) -> None:
    """It sleeps before each of its requests in turn while another publishes version 3; when it wakes with version 2, the view stays at 3."""
    other = catalog(server.url)
    for at in range(1, 10):
        name = f"{database}_{at}"
        other.ensure_database(name, "/x")
        if there_before:
            other.replace_view(numbered(name, 1))
        slept: list[int] = []

        def before(request: int, at: int = at, name: str = name, slept: list[int] = slept) -> None:
            if request == at:
                slept.append(request)
                other.replace_view(numbered(name, 3))

        proxy.plan()
        proxy.before = before
        catalog(proxy.url, read_seconds=60.0).replace_view(numbered(name, 2))
        proxy.before = None
        if not slept:
            assert at == 3, "a view is read, then replaced: two requests when nobody else is there"
            assert shown(other, name) == 2
            return
        assert shown(other, name) == 3
    raise AssertionError("the paused publisher never came to its end")


def test_the_same_version_with_another_text_is_repaired_and_another_life_replaced(server: Server, database: str) -> None:
    """Whose view it is, and whether that life is over, is decided by `flows/publish/publish.py`; Glue keeps only the order within one life."""
    there = catalog(server.url)
    there.replace_view(numbered(database, 5))
    repaired = numbered(database, 5, columns=(Column("id", "int"),))
    there.replace_view(repaired)
    assert there.view(database, "t") == repaired
    another = dataclasses.replace(numbered(database, 1), properties={"compactor.uuid": "u2", "compactor.version": "1"})
    there.replace_view(another)
    assert there.view(database, "t") == another


class Twin(Lake):
    """A lake of the list engine whose catalog is Glue."""

    def __init__(self, database: str, there: GlueCatalog) -> None:
        super().__init__(lake_table(database=database, tables_in=database, athena=True))
        self.catalog = there  # type: ignore[assignment]


@pytest.mark.slow
@pytest.mark.parametrize("pause", range(1, 16))
def test_a_run_that_sleeps_through_another_ones_publish_shows_the_newest(server: Server, proxy: Proxy, database: str, pause: int) -> None:
    """Before one of the requests of its publish, another machine commits and publishes the next version; the view never goes back."""
    lake = Twin(database, catalog(proxy.url, read_seconds=60.0))
    watching = catalog(server.url)
    DELIVERIES[0](lake)
    lake.run()
    seen = [1]

    def look() -> None:
        found = [watching.view(database, name) for name in ("t", "t_athena")]
        assert None not in found
        version = int(found[0].properties["compactor.version"])  # type: ignore[union-attr]
        assert version >= seen[-1], "the view went back"
        seen.append(version)

    def before(request: int) -> None:
        look()
        if request == pause:
            proxy.before = None
            DELIVERIES[2](lake)
            other = Twin(database, watching)
            other.storage, other.now, other.delivered, other._nonces = lake.storage, lake.now, lake.delivered, lake._nonces
            other.run()
            proxy.before = before
            look()

    DELIVERIES[1](lake)
    proxy.plan()
    proxy.before = before
    lake.run()
    proxy.before = None
    newest = lake.newest()
    assert newest is not None
    for name in ("t", "t_athena"):
        found = watching.view(database, name)
        assert found is not None
        assert found.properties["compactor.version"] == str(newest.version)


# Faults


BREAKING = (
    *("500", "503", "429", "reset_before", "reset_after", "cut", "cut_head", "cut_length"),
    *("slow", "late", "twice", "again", "400 ThrottlingException", "400 ConcurrentModificationException"),
)


def publish(there: GlueCatalog, database: str, root: Path, version: int) -> None:
    """What a publish asks of a catalog, with a column that came and a partition that went."""
    longer = (*COLUMNS, Column("late", "string")) if version > 1 else COLUMNS
    there.ensure_database(database, str(root))
    there.ensure_table(table(database, root, columns=longer))
    there.ensure_partitions(database, "t_base", parts(root, 1, version, version + 1))
    there.replace_view(numbered(database, version))
    there.drop_partitions(database, "t_base", [(f"v{version}", f"s{version}")] if version > 1 else [])


def state(plain: Any, database: str) -> dict[str, Any]:
    """Everything that a database holds, without times and version ids."""
    found = {each["Name"]: each for each in plain.get_tables(DatabaseName=database)["TableList"]}
    kept = ("StorageDescriptor", "Parameters", "ViewOriginalText", "TableType", "PartitionKeys")
    told: dict[str, Any] = {name: {key: each[key] for key in kept if key in each} for name, each in found.items()}
    partitions = plain.get_partitions(DatabaseName=database, TableName="t_base")["Partitions"]
    told["partitions"] = sorted((each["Values"], each["StorageDescriptor"], each["Parameters"]) for each in partitions)
    return told


@pytest.mark.slow
@pytest.mark.parametrize("kind", BREAKING)
@pytest.mark.parametrize("version", [1, 2])
def test_a_publish_broken_at_any_request_ends_right(
    server: Server, proxy: Proxy, plain: Any, database: str, tmp_path: Path, kind: str, version: int
) -> None:
    """Nobody needs to know whether a request without an answer was carried out: the end is that of an undisturbed publish."""

    def played(name: str, through: GlueCatalog) -> dict[str, Any]:
        for earlier in range(1, version):
            publish(catalog(server.url), name, tmp_path, earlier)
        proxy.plan(*faults)
        publish(through, name, tmp_path, version)
        proxy.quiet()
        return state(plain, name)

    faults: list[Fault] = []
    # on a busy machine a request may take longer than READ_SECONDS; one that is repeated would count twice
    expected = played(database, catalog(proxy.url, read_seconds=10.0))
    requests = len(proxy.requests)
    assert requests >= 7
    assert DELAY_SECONDS > READ_SECONDS, "else `slow` and `late` would test nothing"
    through = catalog(proxy.url)
    for at in range(1, requests + 1):
        faults = [Fault(kind, at)]
        name = f"{database}_{at}"
        found = played(name, through)
        assert proxy.fired
        assert str(found).replace(name, database) == str(expected), f"{kind} at request {at}: {proxy.requests[at - 1]}"


@pytest.mark.parametrize("kind", ["503", "reset_after", "400 ThrottlingException", "400 ConcurrentModificationException"])
def test_a_catalog_that_stays_away_is_unavailable(server: Server, proxy: Proxy, database: str, tmp_path: Path, kind: str) -> None:
    """After the operation's time, with table, what was tried, the last reason; the next publish ends right."""
    proxy.plan(Fault(kind, times=ALWAYS))
    with pytest.raises(Unavailable, match=rf"{database}\.t_base: could not create or update it in 0\.3 s \(\d+ attempts\); the last .*Run again"):
        catalog(proxy.url, 0.3).ensure_table(table(database, tmp_path))
    proxy.plan()
    publish(catalog(proxy.url), database, tmp_path, 1)
    assert shown(catalog(server.url), database) == 1


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "AccessDeniedException",
            r"not allowed to glue:GetTable: grant this identity what docs/aws\.md lists .*Lake Formation.*AccessDeniedException",
        ),
        ("GlueEncryptionException", r"grant kms:Decrypt"),
        ("ResourceNumberLimitExceededException", r"a quota of Glue is used up"),
        ("InvalidInputException", r"exceeds a limit of Glue"),
        ("UnrecognizedClientException", r"the credentials are not valid at 127\.0\.0\.1:\d+"),
        ("ExpiredTokenException", r"the credentials have expired: renew them"),
        ("SomethingNewException", r"127\.0\.0\.1:\d+ refused glue:GetTable \(SomethingNewException"),
    ],
)
def test_a_no_is_told_with_the_table_and_what_to_do(proxy: Proxy, database: str, tmp_path: Path, code: str, said: str) -> None:
    """At once, not after two minutes."""
    proxy.plan(Fault(f"400 {code}", times=ALWAYS))
    # new credentials may be there when the command starts again
    with pytest.raises(Unavailable if "Expired" in code else CatalogRefused, match=rf"^{database}\.t_base: .*{said}"):
        catalog(proxy.url).ensure_table(table(database, tmp_path))
    assert len(proxy.requests) <= 2


def test_a_missing_database_and_a_missing_region_are_told(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        CatalogRefused, match=r"nowhere\.t_base: the database or table does not exist: create the database, or correct catalog\.database"
    ):
        catalog(server.url).ensure_table(table("nowhere", tmp_path))
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(CatalogRefused, match=r"no region is set: set AWS_REGION"):
        GlueCatalog(ClientConfig()).view("a", "b")


# Partitions


@pytest.mark.slow
def test_thousands_of_partitions_take_few_requests(server: Server, proxy: Proxy, database: str, tmp_path: Path) -> None:
    """A hundred a request to look and to register, pages to list, 25 a request to drop; a second time nothing is written."""
    there = catalog(proxy.url, read_seconds=20.0)
    there.ensure_table(table(database, tmp_path))
    many = sorted(parts(tmp_path, *range(1, 2301)), key=lambda partition: partition.values)
    for expected in (23, 0):
        proxy.plan()
        there.ensure_partitions(database, "t_base", many)
        asked = [path for _, path in proxy.requests]
        assert len([path for path in asked if path.endswith("BatchCreatePartition")]) == expected
        assert len(asked) <= 23 * 2 + 1 + expected, "the server answers a part of each look, as Glue does for wide tables"
    assert there.partitions(database, "t_base") == many
    proxy.plan()
    there.drop_partitions(database, "t_base", [partition.values for partition in many[:1000]])
    assert len(proxy.requests) == 40
    assert there.partitions(database, "t_base") == many[1000:]


@pytest.mark.parametrize("elsewhere", [False, True], ids=["at the same place", "elsewhere"])
def test_a_partition_registered_by_somebody_else_between_look_and_write(
    server: Server, proxy: Proxy, database: str, tmp_path: Path, elsewhere: bool
) -> None:
    """At the same place it is what we wanted; elsewhere it is refused. The others of the batch are registered either way, and harm nobody."""
    other = catalog(server.url)
    other.ensure_table(table(database, tmp_path))
    theirs = dataclasses.replace(parts(tmp_path, 2)[0], location=str(tmp_path / "other")) if elsewhere else parts(tmp_path, 2)[0]

    def before(request: int) -> None:
        if proxy.requests[-1][1].endswith("BatchCreatePartition"):
            proxy.before = None
            other.ensure_partitions(database, "t_base", [theirs])

    proxy.before = before
    there = catalog(proxy.url, read_seconds=60.0)
    if elsewhere:
        with pytest.raises(CatalogRefused, match=rf"{database}\.t_base \['v2', 's2'\]: expected at .*x2, registered at .*other"):
            there.ensure_partitions(database, "t_base", parts(tmp_path, 1, 2, 3))
    else:
        there.ensure_partitions(database, "t_base", parts(tmp_path, 1, 2, 3))
    assert other.partitions(database, "t_base") == [parts(tmp_path, 1)[0], theirs, parts(tmp_path, 3)[0]]


def test_a_partition_that_goes_while_it_is_brought_up_to_date_comes_back(server: Server, proxy: Proxy, database: str, tmp_path: Path) -> None:
    other = catalog(server.url)
    other.ensure_table(table(database, tmp_path))
    other.ensure_partitions(database, "t_base", parts(tmp_path, 1, 2))

    def before(request: int) -> None:
        if proxy.requests[-1][1].endswith("BatchUpdatePartition"):
            proxy.before = None
            other.drop_partitions(database, "t_base", [("v2", "s2")])

    proxy.before = before
    counted = [dataclasses.replace(each, rows=7) for each in parts(tmp_path, 1, 2)]
    catalog(proxy.url, read_seconds=60.0).ensure_partitions(database, "t_base", counted)
    assert other.partitions(database, "t_base") == counted


def test_one_refused_partition_of_a_batch_names_itself(proxy: Proxy, database: str, tmp_path: Path) -> None:
    """Glue answers 200 with an error for each item."""
    there = catalog(proxy.url)
    there.ensure_table(table(database, tmp_path))
    real = there._client.request

    def ask(operation: str, *args: Any, **parameters: Any) -> dict[str, Any]:
        answer = real(operation, *args, **parameters)
        if operation == "batch_create_partition":
            detail = {"ErrorCode": codes.pop(0), "ErrorMessage": "no"}
            answer["Errors"] = [{"PartitionValues": ["v1", "s1"], "ErrorDetail": detail}]
        return answer

    there._client.request = ask  # type: ignore[method-assign]
    codes = ["InvalidInputException"]
    with pytest.raises(CatalogRefused, match=rf"{database}\.t_base \['v1', 's1'\]: Glue rejects the definition"):
        there.ensure_partitions(database, "t_base", parts(tmp_path, 1))
    for number, code in enumerate(("InternalServiceException", "ConcurrentModificationException"), 2):
        codes = [code]
        there.ensure_partitions(database, "t_base", parts(tmp_path, 1, number))
    assert there.partitions(database, "t_base") == parts(tmp_path, 1, 2, 3)


# What it writes


def test_objects_are_what_hive_trino_and_athena_expect(plain: Any, server: Server, database: str, tmp_path: Path) -> None:
    """Formats, statistics, columns with comments; former versions are not kept; what others said of an object stays."""
    there = catalog(server.url)
    for version in (1, 2, 3):
        publish(there, database, tmp_path, version)
    base = plain.get_table(DatabaseName=database, Name="t_base")["Table"]
    assert base["TableType"] == "EXTERNAL_TABLE"
    assert base["Parameters"] == {"EXTERNAL": "TRUE", "compactor.uuid": "u1", "comment": "the bulk"}
    assert base["StorageDescriptor"]["SerdeInfo"]["SerializationLibrary"].endswith("ParquetHiveSerDe")
    assert [column["Name"] for column in base["StorageDescriptor"]["Columns"]] == ["id", "amount", "late"]
    assert base["StorageDescriptor"]["Columns"][0]["Comment"] == "the key"
    assert [key["Name"] for key in base["PartitionKeys"]] == ["base_version", "segment"]
    part = plain.get_partition(DatabaseName=database, TableName="t_base", PartitionValues=["v1", "s1"])["Partition"]
    assert part["Parameters"] == {"numRows": "10", "totalSize": "1000", "numFiles": "1"}
    assert part["StorageDescriptor"] == {**base["StorageDescriptor"], "Location": f"file://{tmp_path}/x1"}
    found = plain.get_table(DatabaseName=database, Name="t")["Table"]
    assert found["TableType"] == "VIRTUAL_VIEW"
    assert found["ViewOriginalText"] == found["ViewExpandedText"] == "SELECT 3 AS `id`"
    for name in ("t", "t_base"):
        assert len(plain.get_table_versions(DatabaseName=database, TableName=name)["TableVersions"]) == 1
    changed = {key: found[key] for key in ("Name", "TableType", "StorageDescriptor", "Parameters", "ViewOriginalText", "ViewExpandedText")}
    theirs = {"team": "blue", "spark.sql.create.version": "3.5", "view.catalogAndNamespace.numParts": "2"}
    plain.update_table(DatabaseName=database, TableInput={**changed, "Owner": "ann", "Parameters": {**found["Parameters"], **theirs}})
    there.replace_view(numbered(database, 4))
    after = plain.get_table(DatabaseName=database, Name="t")["Table"]
    assert after["Owner"] == "ann"
    assert after["Parameters"] == {"compactor.uuid": "u1", "compactor.version": "4", "team": "blue"}


def test_nothing_is_written_when_nothing_changes(proxy: Proxy, database: str, tmp_path: Path) -> None:
    """So that idle runs use up no versions and no quota."""
    there = catalog(proxy.url)
    publish(there, database, tmp_path, 1)
    proxy.plan()
    publish(there, database, tmp_path, 1)
    writing = [path for _, path in proxy.requests if not path.partition(".")[2].startswith(("Get", "BatchGet"))]
    assert writing == []


@pytest.mark.parametrize("dialect", ["hive", PRESTO.called])
def test_an_unchanged_view_with_a_comment_is_not_replaced(server: Server, database: str, dialect: str) -> None:
    """Glue does not show its comment as a property, and Athena's views have another one."""
    there = RecordedCatalog(catalog(server.url), apply=True)
    for version in ("1", "1", "2"):
        there.replace_view(view(database, dialect=dialect, properties={"compactor.version": version, "comment": "rows of t"}))
    assert len(there.statements) == 2


def test_a_view_for_athena_is_written_in_its_own_form(plain: Any, server: Server, database: str) -> None:
    """Base64 JSON in a comment, types as Presto spells them, the flag; columns stay Hive's in the descriptor, as Glue shows them."""
    there = catalog(server.url)
    columns = (
        Column("id", "bigint", "the key"),
        Column("name", "string"),
        Column("at", "timestamp"),
        Column("n", "decimal(10,2)"),
        Column("more", "array<struct<a:int,b:map<string,float>>>"),
        Column("data", "binary"),
    )
    made = view(database, name="t_athena", text='SELECT "id" FROM "x"."y"', columns=columns, dialect=PRESTO.called)
    there.replace_view(made)
    assert there.view(database, "t_athena") == made
    found = plain.get_table(DatabaseName=database, Name="t_athena")["Table"]
    assert (found["Parameters"]["presto_view"], found["ViewExpandedText"]) == ("true", "/* Presto View */")
    said = shapes.presto_definition(found["ViewOriginalText"])
    assert said == {
        "originalSql": made.text,
        "catalog": "awsdatacatalog",
        "schema": database,
        "columns": [
            {"name": "id", "type": "bigint"},
            {"name": "name", "type": "varchar"},
            {"name": "at", "type": "timestamp(3)"},
            {"name": "n", "type": "decimal(10,2)"},
            {"name": "more", "type": 'array(row("a" integer,"b" map(varchar,real)))'},
            {"name": "data", "type": "varbinary"},
        ],
    }
    assert [column["Type"] for column in found["StorageDescriptor"]["Columns"]] == [column.type for column in columns]


@pytest.mark.parametrize("text", ["", "SELECT 1", "/* Presto View: !! */", "/* Presto View: e30= */", "/* Presto View */"])
def test_another_text_is_no_presto_view(text: str) -> None:
    assert shapes.presto_definition(text) is None


def test_the_catalog_of_another_account_is_named_in_every_request(server: Server, proxy: Proxy, database: str) -> None:
    bodies: list[dict[str, Any]] = []
    there = GlueCatalog(ClientConfig("us-east-1", proxy.url), "210987654321")
    client = there._client._connection.client
    client.meta.events.register("provide-client-params.glue.*", lambda params, **_: bodies.append(params))
    there.view(database, "t")
    there.partitions(database, "t")
    assert [body.get("CatalogId") for body in bodies] == ["210987654321"] * 2


def test_what_is_no_glue_is_refused(proxy: Proxy, database: str) -> None:
    """Something that speaks like Glue and keeps no versions could not be changed safely."""
    there = catalog(proxy.url)
    there.replace_view(numbered(database, 1))
    there._client.request = lambda *args, **kwargs: {"Table": {"Name": "t", "TableType": "VIRTUAL_VIEW"}}  # type: ignore[method-assign]
    with pytest.raises(CatalogRefused, match="returned a table without VersionId"):
        there.replace_view(numbered(database, 2))
