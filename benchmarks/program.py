"""What the benchmarks have in common as programs: their options, a folder that is removed at the end, a session, and a page for the figures."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def options(doc: str | None, saves: bool = False) -> argparse.ArgumentParser:
    """Return a parser with `--dir`. `doc`: the module's, which begins with the command in backquotes; `saves`: with `--save`, for `told`."""
    text = doc or ""
    parser = argparse.ArgumentParser(prog=text.split("`")[1], description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", help="where to put the tables; default a temporary directory")
    if saves:
        parser.add_argument("--save", action="store_true", help="keep the figures, and write docs/performance.md again")
    return parser


@contextmanager
def scratch(given: argparse.Namespace) -> Iterator[Path]:
    """Return a new folder below `--dir`, which is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="compactor-bench-", dir=given.dir) as folder:
        yield Path(folder)


@contextmanager
def session(root: Path, **settings: Any) -> Iterator[SparkSession]:
    """Return a session whose metastore and warehouse are in a folder. `settings`: those of SessionSettings."""
    from compactor.spark.session import SessionSettings, close_session, open_session

    spark = open_session(SessionSettings(None, str(root / "metastore"), str(root / "warehouse"), **settings))
    try:
        yield spark
    finally:
        close_session(spark)


def today() -> str:
    """Return the date as results have it."""
    return f"{dt.datetime.now(dt.timezone.utc):%Y-%m-%d}"


def told(given: argparse.Namespace, file: Path, result: dict[str, Any]) -> int:
    """Print a result with the date as JSON; with `--save` also keep it in a file, and write docs/performance.md again. Return the exit code."""
    from benchmarks.peers import page

    result = {"date": today(), **result}
    if given.save:
        page.keep(file, result)
    print(json.dumps(result, indent=1))
    return 0
