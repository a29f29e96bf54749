"""The capture through the App: every table equals PostgreSQL's own dump, but for the cells that no merger can get right.

The sample lands everything in few runs; `COMPACTOR_TESTS=full` (make test-all) goes hour by hour through every form.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pytest

from compactor.app.app import App
from compactor.core.results.record import TableReport
from compactor.flows.read.visible import kept
from tests.capture import config, landing, truth
from tests.oracle.feed import applied, text
from tests.read import same_rows
from tests.spark.conftest import FAST

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("app_on_one_spark")]

FULL = os.environ.get("COMPACTOR_TESTS") == "full"
HOURLY = [[hour] for hour in landing.HOURS]
TELLING = ("student", "enrollment", "toast_def", "audit_log", "trunc_solo", "evolve", "uq_ident", "type_zoo")
"""Tables that between them hold every kind of event and of type."""

SAMPLE: dict[str, tuple[str, tuple[str, ...] | None, list[list[int]], dict[str, int]]] = {
    "hours one after the other, Kafka records": ("debezium_json_kafka", ("toast_def",), [[0, 1, 2], [3, 4], [5, 6, 7, 8]], {}),
    "wal2json, transactions of all tables in one stream": ("wal2json_v1", ("enrollment", "toast_def"), [[0, 1], [2, 3]], {"files": 2}),
    "wal2json, a change a line": ("wal2json_v2", ("measure", "audit_log"), [[0, 1, 2, 3, 4], [5, 6, 7, 8]], {}),
    "Kafka records of Avro by schema id, base64 in JSON": (
        "debezium_avro_kafka",
        ("evolve",),
        [[0, 1, 2, 3], [4, 5, 6, 7, 8]],
        {"files": 2},
    ),
    "Parquet by way of Avro, from Connect's sink": (
        landing.CONNECT,
        ("enrollment", "evolve", "mixed_case", "num_edge", "time_edge", "type_zoo", "trunc_solo", "uuid_key") if FULL else ("enrollment", "type_zoo"),
        [[hour] for hour in landing.HOURS] if FULL else [[0, 1, 2, 3, 4], [5, 6, 7, 8]],
        {},
    ),
    "flat rows without schema": ("flat_value", ("student", "trunc_solo", "type_zoo"), [[0, 1, 2, 3, 4], [5, 6, 7, 8]], {}),
}
OTHERS = tuple(name for name in landing.tables() if name not in {name for _, names, *_ in SAMPLE.values() for name in names or ()})
"""Tables that no other case has."""
SAMPLE["many tables at once, value only, shuffled over files, each file twice"] = (
    "debezium_json_value",
    None if FULL else OTHERS,
    [[4, 0, 7, 2, 8, 1, 6, 3, 5]],
    {"files": 2, "seed": 5, "duplicate": 0},
)
MORE = {
    **{f"{form}, hour by hour": (form, None, HOURLY, {}) for form in landing.FORMS},
    "Kafka records of Avro by schema id, from Spark's Kafka source": ("debezium_avro_parquet", TELLING[1:2], [[8, 2, 0, 5, 1], [3, 4, 6, 7]], {}),
    "hours out of order": ("debezium_json_value", TELLING, [[3, 5], [0, 8, 2], [7, 1], [4, 6]], {"files": 3, "seed": 7}),
}
CASES = {**SAMPLE, **(MORE if FULL else {})}

DELTAS = ("hours one after the other, Kafka records", "flat rows without schema", "hours out of order", "debezium_json_kafka, hour by hour")
"""Which write no new base but by compactions: `auto` makes one of most hours, because the tables are small."""

FED = ("wal2json, a change a line", "wal2json, transactions of all tables in one stream")
"""With a change feed, which must end where the view does. (Defaults of added columns are no change of rows.)"""


def view_rows(app: App, table: str) -> list[dict[str, object]]:
    """The rows by Spark; DuckDB has the same."""
    rows = [json.loads(text, parse_float=Decimal) for text in app.sql(f"SELECT * FROM `{table}`", engine="spark")]
    stored = app.table(table)
    view = same_rows.defined(stored.spec, kept(stored), stored.spec.view)
    assert view is not None
    same_rows.check(view, rows)
    return rows


def differing(app: App, reports: Sequence[TableReport], form: str, hour: int) -> list[str]:
    """Cells that differ from PostgreSQL's dump after this hour and are not known to be impossible."""
    dump = truth.truth(hour)
    found = []
    for report in reports:
        if report.table in dump and report.error is None:
            rows = view_rows(app, report.table) if report.version else []
            found += [str(one) for one in truth.unexpected(truth.differences(rows, dump[report.table], form), form, hour)]
    return found


@pytest.mark.parametrize("case", CASES)
def test_the_capture_equals_postgresql(tmp_path: Path, case: str) -> None:
    """After every run that completes the hours so far, each view equals the dump of the last of them; and `verify` agrees at the end."""
    form, only, groups, options = CASES[case]
    feed = {"change_feed": True} if FULL or case in FED else {}
    extra = {**feed, **({"write_mode": "merge-on-read"} if case in DELTAS else {})}
    (tmp_path / "compactor.yaml").write_text(config.config_text(form, only, table_extra=extra), encoding="utf-8")
    delivered: set[int] = set()
    with App.open(tmp_path / "compactor.yaml", conf=dict(FAST)) as app:
        for group in groups:
            spark = app.runtime.spark() if form.endswith("_parquet") else None
            landing.land(tmp_path, form, only=only, hours=group, spark=spark, **options)
            reports = app.run(parallel=3)
            delivered |= set(group)
            refused = {report.table for report in reports if report.error}
            assert refused <= config.REFUSED.get(form, set()), [report.error for report in reports if report.error]
            if delivered == set(range(max(delivered) + 1)):
                assert [] == differing(app, reports, form, max(delivered))
        assert {report.outcome for report in app.run() if report.table not in config.REFUSED.get(form, set())} == {"idle"}
        checked = [name for name in (only or landing.tables()) if name not in config.REFUSED.get(form, set())]
        assert [] == [check for check in app.verify(checked[:8]) if not check.ok]
        assert case not in DELTAS or any(kept(app.table(name)).delta is not None for name in checked)
        for name in [name for name in checked if feed and not name.startswith("evolve") and not kept(app.table(name)).schema.defaults]:
            told = (line for _, lines in app.changes(name, 0) for line in lines)
            assert Counter(map(text, view_rows(app, name))) == applied(told), f"the change feed of {name}"


def test_the_capture_through_the_command_line(tmp_path: Path) -> None:
    """`compactor run` and `compactor sql --output json`, as a user types them, in processes of their own, in which Spark compiles what it runs."""
    form, table = "debezium_json_value", "enrollment"
    (tmp_path / "compactor.yaml").write_text(config.config_text(form, [table]), encoding="utf-8")
    landing.land(tmp_path, form, only=[table])

    def compactor(*words: str) -> str:
        command = [sys.executable, "-m", "compactor", *words, "--config", str(tmp_path / "compactor.yaml")]
        environment = {name: value for name, value in os.environ.items() if name != "SPARK_CONF_DIR"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
        assert 0 == done.returncode, done.stderr
        return done.stdout

    report = json.loads(compactor("run", "--output", "json"))

    assert "committed" in json.dumps(report)
    for engine in ("spark", "duckdb"):
        rows = json.loads(compactor("sql", f"select * from {table}", "--engine", engine, "--output", "json"), parse_float=Decimal)
        assert [] == truth.unexpected(truth.differences(rows, truth.truth(8)[table], form), form, 8)
    assert "enrollment" in compactor("status")
