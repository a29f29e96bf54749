"""The history of the capture: as of the end of each captured hour every table is PostgreSQL's own dump of that hour."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest

from compactor.app.app import App
from compactor.app.query import micros
from compactor.core.model.errors import Refused
from compactor.duckdb import queries
from compactor.flows.read.visible import kept
from tests.capture import config, landing, truth
from tests.oracle.sizes import FULL
from tests.read import same_rows
from tests.spark.conftest import FAST

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("app_on_one_spark")]

FORM = "debezium_json_value"
TABLES = ("toast_def", "trunc_solo", *(("student", "enrollment", "evolve", "uq_ident", "type_zoo", "ledger") if FULL else ()))
ORDER = [[4, 0, 7], [2, 8, 1, 6, 3, 5]]
"""Which hours each run gets: late ones, and a late truncate."""

ADDED_AGAIN = ("evolve", "legacy")
"""Text that hour 4 dropped, and added again as a number: a view shows the newest column of a name (docs/semantics.md)."""

CHECKED = landing.HOURS if FULL else (3, 8)


def ended(hour: int) -> str:
    """The source time of the last transaction captured up to an hour."""
    found = []
    for earlier in range(hour + 1):
        for records in landing.records("debezium_json", earlier).values():
            values = (json.loads(record["value"]) for record in records if record["value"])
            payloads = (value.get("payload", value) for value in values)
            found += [payload["source"]["ts_us"] for payload in payloads if payload.get("source")]
    return (datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=max(found))).isoformat()


def test_as_of_each_hour_the_capture_is_postgresqls_dump(tmp_path: Path) -> None:
    """Hours absorbed out of order and twice; the names of tables stand for their rows at the time, those without a history are refused."""
    text = config.config_text(FORM, TABLES, table_extra={"history": True})
    plain = config.config_text(FORM, ["measure"]).splitlines()[-1]
    (tmp_path / "compactor.yaml").write_text(f"{text}{plain}\n", encoding="utf-8")
    with App.open(tmp_path / "compactor.yaml", conf=dict(FAST)) as app:
        for group in ORDER:
            landing.land(tmp_path, FORM, only=(*TABLES, "measure"), hours=group, files=2, seed=3, duplicate=0)
            assert [] == [report.error for report in app.run(parallel=2) if report.error]
        wrong = []
        for hour in CHECKED:
            moment, dump = ended(hour), truth.truth(hour)
            for name in (name for name in TABLES if name in dump):
                rows = [json.loads(row, parse_float=Decimal) for row in app.sql(f"SELECT * FROM `{name}`", as_of=moment, engine="spark")]
                stored = app.table(name)
                same_rows.check(queries.as_of(same_rows.session().connection, stored.spec, kept(stored), micros(moment)), rows)
                unexpected = truth.unexpected(truth.differences(rows, dump[name], FORM), FORM, hour)
                wrong += [(hour, str(one)) for one in unexpected if (one.table, one.column) != ADDED_AGAIN or hour >= 4]
        assert [] == wrong
        with pytest.raises(Refused, match="measure has no history"):
            list(app.sql("SELECT * FROM measure", as_of=moment))
        for engine in ("duckdb", "spark"):
            with pytest.raises(Refused, match=f"table {TABLES[0]}: its history begins at 20.*; what its rows were at 2001-01-01"):
                list(app.sql(f"SELECT count(*) FROM {TABLES[0]}", as_of="2001-01-01", engine=engine))
        assert [] != list(app.sql("SELECT * FROM measure", engine="spark"))
        assert [] == [check for check in app.verify(TABLES[1:2]) if not check.ok]
