"""From a real PostgreSQL through Debezium, Kafka and `compactor ingest` into views that equal its tables."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.oracle.sizes import FULL

pytestmark = [pytest.mark.engines, pytest.mark.slow]

if FULL:

    def test_the_demo_on_s3_and_a_shared_metastore(tmp_path: Path) -> None:
        """What `make demo-s3` shows: nothing but warehouse and catalog is another, and the views equal the source."""
        place = Path(__file__).parents[2] / "scripts" / "demo_s3.py"
        spec = importlib.util.spec_from_file_location("demo_s3", place)
        assert spec is not None
        assert spec.loader is not None
        demo = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(demo)
        assert [] == demo.show(tmp_path)

    def test_the_views_equal_the_source(tmp_path: Path) -> None:
        """What `make demo-stack` shows: a snapshot, then updates, deletes, key changes, a row born again, a new column with a default."""
        place = Path(__file__).parents[2] / "scripts" / "demo_stack.py"
        spec = importlib.util.spec_from_file_location("demo_stack", place)
        assert spec is not None
        assert spec.loader is not None
        demo = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(demo)
        assert [] == demo.show(tmp_path)
