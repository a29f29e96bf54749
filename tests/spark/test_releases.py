"""Upgrades: a warehouse that each release wrote is read, checked and continued by this version (scripts/make_release_warehouse.py)."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compactor import __version__
from compactor.app.app import App
from compactor.core.model.snapshot import FORMAT
from compactor.core.settings import job_config
from compactor.flows.keep.pin import pins
from scripts.make_release_warehouse import OUTCOMES, VERSIONS, rows, shown
from tests.parts.one_spark import app_on_one_spark

__all__ = ["app_on_one_spark"]

ROOT = Path(__file__).parents[2]
RELEASES = sorted((ROOT / "tests" / "releases").glob("*.tar.gz"))


@pytest.fixture(params=RELEASES, ids=lambda path: path.name.removesuffix(".tar.gz"))
def warehouse(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The warehouse of a release, in another place than it was written."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "warehouse"


@pytest.fixture
def app(warehouse: Path, app_on_one_spark: None) -> Iterator[App]:
    """An App of it."""
    with App.open(warehouse / "compactor.yaml") as opened:
        yield opened


def test_a_warehouse_of_each_release_is_read_without_spark(warehouse: Path) -> None:
    """In another place than it was written: versions, rows, files, the pin and the file in quarantine."""
    expected: dict[str, Any] = json.loads((warehouse / "expected.json").read_text(encoding="utf-8"))
    with App.open(warehouse / "compactor.yaml") as opened:
        assert {each.table: each.version for each in opened.status()} == VERSIONS
        for table in VERSIONS:
            assert sorted(shown(text) for text in opened.sql(f"select * from {table}", engine="duckdb")) == expected["before"][table]
        assert [check for check in opened.verify(files_only=True) if not check.ok] == []
        assert [pin.version for pin in pins(opened.table("price"))] == [1]
        assert [file.table for file in opened.quarantined()] == ["price"]


@pytest.mark.spark
@pytest.mark.slow
def test_a_warehouse_of_each_release_is_read_and_continued(app: App, warehouse: Path) -> None:
    """Views as the release showed them; every check of every file; new increments with the release's own result; pins, quarantine and restore."""
    expected: dict[str, Any] = json.loads((warehouse / "expected.json").read_text(encoding="utf-8"))
    assert {each.table: each.version for each in app.status()} == VERSIONS
    app.publish()
    assert rows(app) == expected["before"]
    assert [check for check in app.verify(deep=True) if not check.ok] == []
    assert [pin.version for pin in pins(app.table("price"))] == [1]
    assert [file.table for file in app.quarantined()] == ["price"]

    shutil.copytree(warehouse / "later", warehouse, dirs_exist_ok=True)
    assert {report.table: report.outcome for report in app.run()} == OUTCOMES
    assert rows(app) == expected["after"]
    assert [check for check in app.verify(deep=True) if not check.ok] == []
    assert [report.error for report in app.run(compact=True)] == [None] * 5
    assert rows(app) == expected["after"]
    app.vacuum(dry=False)
    assert rows(app) == expected["after"]
    app.restore("price", "1")
    assert [json.loads(text)["price"] for text in app.sql("select price from price order by id", engine="spark")] == [10, 20]


def test_every_version_in_the_changelog_has_its_warehouse() -> None:
    """Released ones, and the one that is being made."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", text, re.MULTILINE)
    assert versions[0] == __version__
    assert {f"{version}.tar.gz" for version in versions} == {path.name for path in RELEASES}


def test_the_page_of_versions_is_true() -> None:
    """The first row of docs/operations.md is this version, with the formats that the code has."""
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    first = next(line for line in page.splitlines() if re.match(r"\| \d", line))
    assert [cell.strip() for cell in first.strip("|").split("|")][:4] == [__version__, str(FORMAT), str(FORMAT), str(job_config.FORMAT)]
