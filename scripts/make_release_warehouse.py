"""Write the warehouse of a release: `python scripts/make_release_warehouse.py`, once for each release, before its tag.

Writes tests/releases/<version>.tar.gz. `tests/spark/test_releases.py` then checks that every later version reads the warehouse and continues it. The
archive contains:

    compactor.yaml, <table>/...    the warehouse after three runs and a pin, with a file in quarantine
    later/<table>/...              increments that land after the upgrade
    expected.json                  rows of every view: before, and after a run with `later/`, as this version shows them
"""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

from compactor import __version__
from compactor.app.app import App
from compactor.demo import SPARK
from compactor.flows.keep.pin import pin

ROOT = Path(__file__).parents[1]
CAPTURE = ROOT / "compactor" / "demo" / "landing"
CONFIG = """# The warehouse of a release: tests/spark/test_releases.py.
warehouse: .
catalog: {database: released}
defaults: {quarantine: 50%}
tables:
  student: {key: [id], envelope: debezium, change_feed: true}
  enrollment: {key: [course_code, student_id, term], envelope: debezium, history: true}
  trunc_solo: {key: [id], envelope: debezium, write_mode: merge-on-read}
  audit_log: {key: [], envelope: debezium}
  price: {key: [id], envelope: flat, order_by: [seq], write_mode: merge-on-read, archive: copy}
"""
VIEWS = ("student", "student_changes", "enrollment", "enrollment_history", "trunc_solo", "audit_log", "price")
VERSIONS = {"student": 3, "enrollment": 3, "trunc_solo": 1, "audit_log": 3, "price": 4}
"""Table → version after the three runs and the pin."""
OUTCOMES = {"student": "committed", "enrollment": "idle", "trunc_solo": "committed", "audit_log": "committed", "price": "committed"}
"""Table → outcome of the run with `later/`."""
PRICES = {
    0: [{"id": 1, "seq": 1, "price": 10}, {"id": 2, "seq": 2, "price": 20}],
    1: [{"id": 2, "seq": 3, "price": 21}],
    2: [{"id": 3, "seq": 4, "price": 30, "currency": "EUR"}],
    3: [{"id": 1, "seq": 5, "price": 11, "currency": "USD"}, {"id": 4, "seq": 6, "price": 40, "currency": "EUR"}],
}
"""Hour → rows of the flat table, which gets a column in hour 2."""


def require(result: object, expected: object) -> None:
    """Stop if the warehouse is not what the test expects of every release's warehouse."""
    if result != expected:
        raise SystemExit(f"expected {expected}, got {result}")


def land(folder: Path, hours: range) -> None:
    """Put the increments of these hours of 2024-03-05 into a folder."""
    for hour in hours:
        name = f"increment_20240305{hour:02d}"
        for table in ("student", "enrollment", "trunc_solo", "audit_log"):
            found = CAPTURE / table / "incremental" / name
            if found.exists():
                shutil.copytree(found, folder / table / "incremental" / name)
        if hour in PRICES:
            file = folder / "price" / "incremental" / name / "part-0.json"
            file.parent.mkdir(parents=True)
            file.write_text("".join(json.dumps(row) + "\n" for row in PRICES[hour]), encoding="utf-8")


def rows(app: App) -> dict[str, list[str]]:
    """Return the rows of every view as JSON, sorted; without the time of the run that wrote them."""
    return {view: sorted(shown(text) for text in app.sql(f"select * from {view}", engine="spark")) for view in VIEWS}


def shown(text: str) -> str:
    """Return a row without the time of its commit."""
    return json.dumps({key: value for key, value in json.loads(text).items() if key != "_commit_timestamp"}, sort_keys=True)


def play(folder: Path) -> None:
    """Write the warehouse, and what a later version must show."""
    (folder / "compactor.yaml").write_text(CONFIG, encoding="utf-8")
    with App.open(folder / "compactor.yaml", conf=SPARK) as app:
        for hour in range(3):
            land(folder, range(hour, hour + 1))
            if hour == 1:
                (folder / "price/incremental/increment_2024030501/broken.json").write_text('{"id": \n', encoding="utf-8")
            reports = app.run()
            failed = [f"{report.table}: {report.error}" for report in reports if report.error]
            if failed:
                raise SystemExit("\n".join(failed))
        pin(app.table("price"), 1, "first")
        before = rows(app)
        require({each.table: each.version for each in app.status()}, VERSIONS)
    shutil.copytree(folder, folder.with_name("continued"), ignore=shutil.ignore_patterns("metastore"))
    land(folder.with_name("continued"), range(3, 9))
    with App.open(folder.with_name("continued") / "compactor.yaml", conf=SPARK) as app:
        # its metastore is a new one
        app.publish()
        require({report.table: report.outcome for report in app.run()}, OUTCOMES)
        after = rows(app)
    land(folder / "later", range(3, 9))
    text = json.dumps({"before": before, "after": after}, indent=0, ensure_ascii=False)
    (folder / "expected.json").write_text(text + "\n", encoding="utf-8")


def main() -> None:
    """Write the archive of this version. An archive of a released version is never written again."""
    target = ROOT / "tests" / "releases" / f"{__version__}.tar.gz"
    if target.exists() and "--again" not in sys.argv:
        raise SystemExit(f"{target.name} exists; a release's warehouse stays as that release wrote it (--again: it was not released yet)")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "warehouse"
        folder.mkdir()
        play(folder)
        shutil.rmtree(folder / "metastore", ignore_errors=True)
        target.parent.mkdir(exist_ok=True)
        with tarfile.open(target, "w:gz") as archive:
            archive.add(folder, arcname="warehouse")
    print(f"{target.relative_to(ROOT)}: {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
