"""The capture as AWS DMS would have written it, hour by hour through the App: every table equals PostgreSQL's own dump.

The sample takes the tables that tell most; `COMPACTOR_TESTS=full` (make test-all) takes all, hours out of order too.
"""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path

import pytest

from compactor.app.app import App
from tests.capture import dms, landing, truth
from tests.spark.conftest import FAST

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("app_on_one_spark")]

FULL = os.environ.get("COMPACTOR_TESTS") == "full"
HOURLY = [[hour] for hour in landing.HOURS]
TELLING = ("student", "enrollment", "pkmove", "audit_log", "trunc_solo", "evolve", "num_key", "text_key")
"""Snapshots, key changes, keyless rows, truncates, columns that come and go, decimals and text as keys."""

CASES = {
    "parquet, the full load last": ("dms_parquet", TELLING if FULL else TELLING[2:4], [[3, 1, 2], [0, 4], [5, 6, 7, 8]]),
}
MORE = {
    "csv, hours in pairs": ("dms_csv", TELLING, [[0], [1, 2], [3, 4], [5, 6], [7, 8]]),
    "csv, hour by hour": ("dms_csv", None, HOURLY),
    "parquet, hour by hour": ("dms_parquet", None, HOURLY),
    "csv, hours out of order": ("dms_csv", None, [[3, 5], [0, 8, 2], [7, 1], [4, 6]]),
}


def differing(app: App, names: list[str], form: str, hour: int) -> list[str]:
    """Cells that differ from PostgreSQL's dump after this hour and are not known to be impossible."""
    dump, found = truth.truth(hour), []
    for name in names:
        if name in dump and app.status([name])[0].version:
            rows = [json.loads(text, parse_float=Decimal) for text in app.sql(f"SELECT * FROM `{name}`", engine="spark")]
            found += [str(one) for one in dms.unexpected(truth.differences(rows, dump[name], form), form, hour)]
    return found


@pytest.mark.parametrize("case", {**CASES, **(MORE if FULL else {})})
def test_the_capture_equals_postgresql(tmp_path: Path, case: str) -> None:
    """After every run that completes the hours so far; nothing is ever a tie; and `verify` agrees at the end."""
    form, only, groups = {**CASES, **MORE}[case]
    names = list(only or landing.tables())
    (tmp_path / "compactor.yaml").write_text(dms.config_text(form, names, tmp_path), encoding="utf-8")
    delivered: set[int] = set()
    with App.open(tmp_path / "compactor.yaml", conf=dict(FAST)) as app:
        for group in groups:
            for name in names:
                dms.land(tmp_path, form, name, group, app.runtime.spark() if form == "dms_parquet" else None)
            reports = app.run(parallel=3)
            delivered |= set(group)
            assert [] == [report.error for report in reports if report.error]
            assert {0} == {report.ties for report in reports}
            if delivered == set(range(max(delivered) + 1)):
                assert [] == differing(app, names, form, max(delivered))
        assert {"idle"} == {report.outcome for report in app.run()}
        assert [] == [check for check in app.verify(names[:8]) if not check.ok]
