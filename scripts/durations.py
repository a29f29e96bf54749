"""Print where the time of a test run goes, beside the last stored run.

    python scripts/durations.py build/junit.xml                 print and compare with tests/durations.json
    python scripts/durations.py build/junit.xml --store         store this run in tests/durations.json
    python scripts/durations.py build/junit.xml --bound 600     exit with 1 when the run took longer than 600 s

The comparison never fails, because machines differ. Only the bound does.
"""

from __future__ import annotations

import argparse
import json
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

STORED = Path(__file__).parents[1] / "tests" / "durations.json"
NOTICEABLE = 3.0
"""Files whose time changed by fewer seconds are not listed."""


@dataclass(frozen=True)
class Run:
    """One run of pytest."""

    wall: float
    """Seconds from its beginning to its end."""

    files: dict[str, float]
    """Seconds of the tests of each file, set-up and teardown included."""

    tests: dict[str, int]
    """Number of tests of each file."""

    slowest: list[tuple[float, str]]
    """The slowest tests: seconds and name, slowest first."""

    @property
    def total(self) -> float:
        """Seconds of all tests; with two processes about twice the wall time."""
        return sum(self.files.values())


def read(junit: Path) -> Run:
    """Return the run that a junit file of pytest describes."""
    suites = ElementTree.parse(junit).getroot().findall("testsuite")  # noqa: S314 - pytest wrote it a moment ago
    files: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    each = []
    for case in (case for suite in suites for case in suite.iter("testcase")):
        file = file_of(case.get("classname", ""))
        seconds = float(case.get("time", "0"))
        files[file] += seconds  # type: ignore[assignment]  # Counter adds floats as well
        tests[file] += 1
        each.append((seconds, f"{file}::{case.get('name')}"))
    return Run(sum(float(suite.get("time", "0")) for suite in suites), dict(files), dict(tests), sorted(each, reverse=True)[:15])


def file_of(classname: str) -> str:
    """Return the path of `tests.flows.test_x.TestUse`: up to and including the first part that begins with `test_`."""
    parts = classname.split(".")
    end = next((number for number, part in enumerate(parts) if part.startswith("test_")), len(parts) - 1)
    return "/".join(parts[: end + 1]) + ".py"


def folder(file: str) -> str:
    """Return the folder below `tests`, or `tests` itself."""
    return file.rpartition("/")[0]


def by_folder(files: dict[str, float]) -> dict[str, float]:
    """Add up the files of each folder."""
    found: Counter[str] = Counter()
    for file, seconds in files.items():
        found[folder(file)] += seconds  # type: ignore[assignment]
    return dict(found)


def table(now: dict[str, float], before: dict[str, float], tests: dict[str, int] | None = None) -> list[str]:
    """Lay out seconds now and before, most expensive first."""
    lines = []
    for name in sorted({*now, *before}, key=lambda name: -max(now.get(name, 0), before.get(name, 0))):
        number = f"{tests.get(name, 0):6}" if tests is not None else ""
        was = f"{before[name]:8.1f}" if name in before else "       -"
        lines.append(f"{now.get(name, 0):8.1f} {was} {number}  {name}")
    return lines


def main(arguments: list[str]) -> int:
    """Print the tables; return 1 when the run took longer than the bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("junit", type=Path)
    parser.add_argument("--store", action="store_true")
    parser.add_argument("--bound", type=float)
    asked = parser.parse_args(arguments)
    run = read(asked.junit)
    stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {"wall": 0.0, "files": {}}
    before: dict[str, float] = stored["files"]
    print(f"{sum(run.tests.values())} tests in {run.wall:.0f} s, stored run: {stored['wall']:.0f} s")
    print("\n     now   stored   seconds by folder")
    print("\n".join(table(by_folder(run.files), by_folder(before))))
    changed = {name for name in {*run.files, *before} if abs(run.files.get(name, 0) - before.get(name, 0)) >= NOTICEABLE}
    print(f"\n     now   stored  tests  files that changed by {NOTICEABLE:.0f} s or more")
    print("\n".join(table(*({name: each[name] for name in each if name in changed} for each in (run.files, before)), run.tests)) or "none")
    print("\nslowest tests")
    print("\n".join(f"{seconds:8.1f}  {name}" for seconds, name in run.slowest))
    if asked.store:
        files = {name: round(seconds, 1) for name, seconds in sorted(run.files.items())}
        STORED.write_text(json.dumps({"wall": round(run.wall, 1), "files": files}, indent=1) + "\n", encoding="utf-8")
    if asked.bound is not None and run.wall > asked.bound:
        print(f"\nThe run took {run.wall:.0f} s, the bound is {asked.bound:.0f} s: move tests to the slow tier (see the Makefile).", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
