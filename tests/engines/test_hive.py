"""The views in Hive 2.3.9 and 4.0.1, which share no code with Spark's SQL: every type of the capture is what PostgreSQL says it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from compactor.app.app import App
from tests.capture import config, landing, truth
from tests.oracle.sizes import FULL
from tests.parts.hive import hive
from tests.parts.hive4 import hive4
from tests.parts.metastore import metastore
from tests.spark.conftest import FAST

pytestmark = [pytest.mark.engines, pytest.mark.spark]

FORM = "debezium_json_value"
JULIAN = {("time_edge", (key,), column) for key in (5, 6, 22, 25) for column in ("ts", "tstz")}
"""Moments before 1582-10-15, which Hive 4 takes out of INT96 in the Julian calendar, whatever its settings are."""


@dataclass(frozen=True)
class School:
    """The whole capture, run and published."""

    uri: str
    """The metastore."""
    views: Mapping[str, Mapping[str, str]]
    """View → column → type."""
    statements: tuple[str, ...]
    """What `compactor publish --dry-run` shows where nothing is published yet."""


def differences(found: Mapping[str, list[dict[str, Any]]]) -> list[truth.Difference]:
    """Compare what an engine shows with PostgreSQL's dump, cell by cell; what the stream itself loses must be missing."""
    dump = truth.truth(8)
    differing = [one for name in found for one in truth.differences(found[name], dump[name], FORM)]
    # nothing was passed over: what the stream itself loses is all that is missing
    assert [] == truth.missing(differing, FORM, 8, tuple(landing.tables()))
    return truth.unexpected(differing, FORM, 8)


if FULL:  # jars come from Maven

    @pytest.fixture(scope="module")
    def school(tmp_path_factory: pytest.TempPathFactory) -> Iterator[School]:
        """One run for both engines."""
        home, only = tmp_path_factory.mktemp("school"), tuple(landing.tables())
        with metastore(home) as uri:
            catalogs = {"published": {"uri": uri}, "empty": {}}
            for name, catalog in catalogs.items():
                text = config.config_text(FORM, only, extra={"catalog": {"database": "school", **catalog}})
                (home / f"{name}.yaml").write_text(text, encoding="utf-8")
            landing.land(home, FORM, only=only)
            with App.open(home / "published.yaml", conf=dict(FAST)) as app:
                assert [] == [report.error for report in app.run(parallel=2) if report.error]
                schemas = {name: app.log(name)[0].schema for name in only}
            with App.open(home / "empty.yaml", conf=dict(FAST)) as app:
                statements = tuple(statement for synced in app.publish(dry_run=True) for statement in synced.statements)
            views = {name: {schema.view_name(field): field.type for field in schema.payload} for name, schema in schemas.items()}
            yield School(uri, views, statements)

    def test_every_type_reads_back_as_postgresql_shows_it(tmp_path: Path, school: School) -> None:
        """Hive 2.3 through the views that Spark has published. (Spark through them: `tests/capture/test_hours.py`.)"""
        with hive(tmp_path, school.uri) as engine:
            found = engine.tables("school", school.views)
        assert [] == [str(one) for one in differences(found)]

    def test_every_type_reads_back_in_hive_4_by_the_statements_of_sync(tmp_path: Path, school: School) -> None:
        """Hive 4 does not work on the metastore that Spark publishes in: tables and views come into its own by the statements that
        `compactor publish --dry-run` shows."""
        with hive4(tmp_path) as engine:
            engine.execute(school.statements)
            found = engine.tables("school", school.views)
        assert {(one.table, one.key, one.column) for one in differences(found)} == JULIAN
