"""Check a version before readers see it: the rows of its view, and the view's text.

Spark analyses the text with each table replaced by a subquery of typed nulls: no job runs, and the catalog is not read. Presto's dialect differs from
Hive's in spelling only: its tokens are spelled as Spark's first. Trino reads Hive's dialect too: constants in it may only have the types in
`dialect.PORTABLE`, whose names all engines know.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from compactor.core.catalog import views
from compactor.core.catalog.ddl import TableDef, ViewDef
from compactor.core.catalog.dialect import HIVE, HIVE_NAME, PORTABLE
from compactor.core.model import types
from compactor.core.model.errors import CheckFailed
from compactor.core.model.policy import Rule
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning import audit as rules
from compactor.core.planning.audit import Measured
from compactor.spark import failures
from compactor.spark.input.files import from_spark
from compactor.spark.sql import null, quoted
from compactor.spark.tables.table_reader import TableReader

_TOKEN = re.compile(r"""(?P<name>"(?:[^"]|"")*")|(?P<text>'(?:[^']|'')*')|(?P<word>[A-Za-z_]\w*(?:\(3\))?)|.""", re.DOTALL)
"""A token of Presto's dialect."""
_WORDS = {"varchar": "string", "varbinary": "binary", "real": "float", "timestamp(3)": "timestamp"}
"""Presto's type names that Spark does not have."""
_CONSTANTS = re.compile(r"CAST\('' AS (\w+(?:\([\d,]+\))?)\)")
"""Finds the type of each constant in Hive's dialect, without the constants."""
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|`(?:[^`]|``)*`", re.DOTALL)
"""Finds strings and names in Hive's dialect."""


def check_text(spark: SparkSession, view: ViewDef, tables: Sequence[TableDef]) -> None:
    """Raise CheckFailed unless the text is valid SQL and gives the columns of the view. `tables`: those that the text names."""
    label = f"{view.database}.{view.name}"
    advice = "The catalog still has the view as it was. This is a fault of compactor: please report it with this message."
    text = view.text if view.dialect == HIVE_NAME else _as_hive(view.text)
    unknown = [name for name in _CONSTANTS.findall(_QUOTED.sub("''", view.text)) if view.dialect == HIVE_NAME and not PORTABLE.fullmatch(name)]
    if unknown:
        raise CheckFailed(f"view {label}: Trino does not know the type {unknown[0]} in its text. {advice}")
    for table in tables:
        columns = ", ".join(f"{null(types.parse(column.type))} AS {quoted(column.name)}" for column in (*table.columns, *table.partition_columns))
        # an alias follows each table, so that no other name begins with this text
        text = text.replace(f"{quoted(table.database)}.{quoted(table.name)} ", f"(SELECT {columns}) ")
    try:
        schema = spark.sql(text).schema
    except PySparkException as error:
        raise CheckFailed(f"view {label}: its text cannot be read: {str(error).splitlines()[0][:400]}. {advice}") from None
    shown = [(field.name.lower(), from_spark(field.dataType)) for field in schema.fields]
    expected = [(column.name, types.parse(column.type)) for column in view.columns]
    for (name, kind), (other, listed) in zip(shown, expected):
        if (name, types.lower_names(kind)) != (other.lower(), types.lower_names(listed)):
            raise CheckFailed(f"view {label}: expected the column {other} {types.text(listed)}, its text gives {name} {types.text(kind)}. {advice}")
    if len(shown) != len(expected):
        raise CheckFailed(f"view {label}: expected {len(expected)} columns, its text gives {len(shown)}. {advice}")


def _as_hive(text: str) -> str:
    """Return a text of Presto's dialect in Hive's spelling."""

    def spelled(token: re.Match[str]) -> str:
        if token["name"]:
            return HIVE.name(token["name"][1:-1].replace('""', '"'))
        if token["text"]:
            return HIVE.text(token["text"][1:-1].replace("''", "'"))
        return _WORDS.get(token[0], token[0])

    return _TOKEN.sub(spelled, text)


def audit(spark: SparkSession, spec: TableSpec, snapshot: Snapshot, measured: Sequence[Rule]) -> Measured:
    """Count the rows that break audit rules. The version is read from its files, as the catalog does not have it."""
    # temporary views of its own: the name of the view means the new version here, and the shown one everywhere else
    session = spark.newSession()
    schema = snapshot.schema
    deleted = [f"_gone IS NOT NULL AS {quoted(views.DELETED)}"] if spec.soft else []
    shown = [f"{quoted(field.name)} AS {quoted(schema.view_name(field))}" for field in schema.payload]
    rows = TableReader(session, spec.layout, snapshot, schema).live(spec.soft).selectExpr(*shown, *deleted)
    rows.createOrReplaceTempView(quoted(spec.view))
    return Measured(rows.count(), tuple(_offending(session, spec, rule) for rule in measured))


def _offending(session: SparkSession, spec: TableSpec, rule: Rule) -> tuple[int, str] | str:
    try:
        rows = session.sql(rules.query(rule, quoted(spec.view)))
        number = rows.count()
        example = rows.selectExpr("to_json(struct(*)) AS row").first() if number else None
    except Exception as error:
        failures.raise_environment_error(error)
        return failures.reason(error)
    return number, example.row if example else ""
