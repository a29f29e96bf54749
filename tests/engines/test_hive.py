"""The views in Hive 2.3.9, which shares no code with Spark's SQL: every type of the capture is what PostgreSQL says it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from compactor.app.app import App
from tests.capture import config, landing, truth
from tests.oracle.sizes import FULL
from tests.parts.hive import hive
from tests.parts.metastore import metastore
from tests.spark.conftest import FAST

pytestmark = [pytest.mark.engines, pytest.mark.spark]

FORM = "debezium_json_value"

if FULL:  # six jars come from Maven

    def test_every_type_reads_back_as_postgresql_shows_it(tmp_path: Path) -> None:
        """Hive through the views that Spark has published, cell by cell against PostgreSQL's dump. (Spark through them: `tests/capture/test_hours.py`.)"""
        only = tuple(landing.tables())
        with metastore(tmp_path) as uri, hive(tmp_path, uri) as engine:
            text = config.config_text(FORM, only, extra={"catalog": {"database": "school", "uri": uri}})
            (tmp_path / "compactor.yaml").write_text(text, encoding="utf-8")
            landing.land(tmp_path, FORM, only=only)
            with App.open(tmp_path / "compactor.yaml", conf=dict(FAST)) as app:
                assert [] == [report.error for report in app.run(parallel=2) if report.error]
                schemas = {name: app.log(name)[0].schema for name in only}
            views = {name: {schema.view_name(field): field.type for field in schema.payload} for name, schema in schemas.items()}
            found = engine.tables("school", views)
        dump = truth.truth(8)
        differing = [one for name in only for one in truth.differences(found[name], dump[name], FORM)]
        assert [] == [str(one) for one in truth.unexpected(differing, FORM, 8)]
        # nothing was passed over: what the stream itself loses is all that is missing
        assert [] == truth.missing(differing, FORM, 8, only)
