"""The demo's data and steps: captured changes of a PostgreSQL database that land hour by hour. The folder `landing` has the files.

`compactor.cli.demo` plays it with the normal App.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterable
from pathlib import Path

from compactor.core.model.errors import Refused

HERE = Path(__file__).parent
MARKER = ".compactor-demo"
"""A file that marks a directory made by the demo. Only such a directory is emptied."""

STEPS = (("00 to 03", range(4)), *((f"{hour:02}", range(hour, hour + 1)) for hour in range(4, 9)))
ABOUT = {
    "00 to 03": "an initial snapshot, plain changes, key changes, large values, a 2,000-row transaction",
    "04": "columns added, renamed, dropped",
    "05": "TRUNCATE, infinite dates, years before Christ",
    "06": "nothing landed: no new Snapshot",
    "07": "the connector was killed and sends events twice",
    "08": "an incremental snapshot: the connector reads tables while they change",
}

SPARK = {
    # six small tables in a cold JVM: compiling queries takes longer than interpreting them
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
    "spark.sql.shuffle.partitions": "2",
}


def commands(config: Path) -> list[str]:
    where = shlex.quote(str(config))
    queries = ("select * from student limit 5", "select mood, count(*) students, sum(tuition) tuition from student group by mood", "show tables")
    return [
        *(f'compactor sql --config {where} "{query}"' for query in queries),
        f"compactor log student --config {where}",
        f"compactor verify --config {where}",
        f"compactor status --config {where} --output json",
        f"less {where}",
    ]


def prepare(directory: Path, fresh: bool) -> None:
    """Make a demo directory with the configuration. `fresh`: empty an existing one.

    Raises Refused if the directory has other files, Busy while another demo runs.
    """
    marker = directory / MARKER
    if directory.exists() and not directory.is_dir():
        raise Refused(f"{directory} is a file; choose another folder with --dir")
    if directory.is_dir() and any(directory.iterdir()) and not marker.exists():
        raise Refused(f"{directory} contains files that the demo did not write; choose another folder with --dir")
    if fresh and marker.exists():
        _empty(directory)
    directory.mkdir(parents=True, exist_ok=True)
    marker.write_text("Made by `compactor demo`, which empties this folder when it runs again.\n", encoding="utf-8")
    if not (directory / "compactor.yaml").exists():
        shutil.copyfile(HERE / "compactor.yaml", directory / "compactor.yaml")


def _empty(directory: Path) -> None:
    from compactor.spark.embedded import embedded_lock

    if (directory / "metastore").is_dir():
        embedded_lock(str(directory / "metastore"), 0).release()
    for child in directory.iterdir():
        if child.is_dir() and not child.is_symlink():
            shutil.rmtree(child)
        elif child.name != MARKER:
            child.unlink()


def deliver(directory: Path, hours: Iterable[int]) -> int:
    """Copy the files of these hours into landing, as a sink would. Skip files that have landed before. Return the number of new files."""
    landed = 0
    for hour in hours:
        for source in sorted((HERE / "landing").glob(f"*/incremental/increment_20240305{hour:02}/*")):
            below = source.relative_to(HERE / "landing")
            table, folder = below.parts[0], below.parts[2]
            target = directory / below
            if target.exists() or (directory / table / "archive" / folder / source.name).exists():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            staged = target.with_name(f".{target.name}.tmp")
            shutil.copyfile(source, staged)
            staged.replace(target)
            landed += 1
    return landed
