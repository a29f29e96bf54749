"""A real source in which tables are created while runs go on: they become views without a person, if the source names their key."""

from __future__ import annotations

import json
import subprocess
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from compactor.app import App
from compactor.spark.java import find_java
from tests.oracle.sizes import FULL

if FULL:
    from tests.parts.stack import PREFIX, _kafka, source

pytestmark = [pytest.mark.engines, pytest.mark.slow, pytest.mark.spark]

ROUNDS, SECONDS = 20, 3.0
CONFIG = (
    "warehouse: {home}\ncatalog: {{database: school}}\ndiscover: [{{from: 'topics/pg.{{schema}}.{{table}}', name: '{{table}}', archive: keep}}]\n"
)


class Sink:
    """Writes each record of `pg.public.*` with its key into topics/<topic>/<date>/<hour>, as sinks do; new topics too."""

    def __init__(self, servers: str, landing: Path) -> None:
        self._landing, self._next = landing, defaultdict[str, int](int)
        consumer = [
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            "--bootstrap-server",
            servers,
            "--include",
            rf"{PREFIX}\.public\..*",
            "--from-beginning",
        ]
        shown = [word for name in ("key", "offset") for word in ("--formatter-property", f"print.{name}=true")]
        java = [Path(find_java()) / "bin" / "java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{_kafka()}/*"]
        self._command = [str(word) for word in (*java, *consumer, *shown, "--timeout-ms", 5000)]

    def land(self) -> None:
        """Land what has come since the last time."""
        done = subprocess.run(self._command, capture_output=True, text=True, check=False)
        # without messages for a while the consumer ends with an exception about the time, and says how many there were
        assert "Processed a total of" in done.stderr, done.stderr
        records = defaultdict[str, list[dict[str, Any]]](list)
        for line in done.stdout.splitlines():
            offset, key, value = line.split("\t", 2)
            if value == "null":
                continue
            topic = str(json.loads(value)["schema"]["name"]).removesuffix(".Envelope")
            number = int(offset.removeprefix("Offset:"))
            if number >= self._next[topic]:
                records[topic].append({"topic": topic, "partition": 0, "offset": number, "key": None if key == "null" else key, "value": value})
        for topic, new in records.items():
            path = self._landing / topic / time.strftime("%Y/%m/%d/%H", time.gmtime()) / f"{new[0]['offset']}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_suffix(".tmp").write_text("".join(f"{json.dumps(each)}\n" for each in new), encoding="utf-8")
            path.with_suffix(".tmp").rename(path)
            self._next[topic] = new[-1]["offset"] + 1


if FULL:

    def test_a_table_created_upstream_appears_as_a_view(tmp_path: Path) -> None:
        """With its rows, in the first run after they landed. One without a key waits and is named; it has no view."""
        (tmp_path / "stack").mkdir()
        config = tmp_path / "compactor.yaml"
        config.write_text(CONFIG.format(home=tmp_path / "warehouse"), encoding="utf-8")
        with source(tmp_path / "stack") as stack, App.open(config) as app:
            sink = Sink(stack.servers, tmp_path / "warehouse" / "topics")
            stack.sql(
                "create table student (id int primary key, name text); insert into student select n, 'student ' || n from generate_series(1, 50) n"
            )
            stack.connect()
            until_equal(app, sink, stack, {"student": "id, name"})
            assert app.settings.names == ("student",)
            stack.sql(
                "create table course (code text, term int, title text, primary key (code, term));"
                "insert into course values ('a', 1, 'Algebra'), ('b', 1, 'Biology'), ('b', 2, 'Botany');"
                "create table remark (text text); alter table remark replica identity full; insert into remark values ('no key'), ('none');"
            )
            until_equal(app, sink, stack, {"course": "code, term, title", "student": "id, name"})
            stack.sql("update course set title = 'Logic' where code = 'a'; delete from course where term = 2; delete from student where id < 10")
            until_equal(app, sink, stack, {"course": "code, term, title", "student": "id, name"})
            assert app.settings.spec("course").key == ("code", "term")
            assert app.settings.names == ("course", "student")
            (waits,) = app.folders(samples=True)
            assert "pg.public.remark waits: Its source has no key." in waits
            assert '"remark": {' in waits, "the line to write"
            assert (tmp_path / "tables.d" / "course.yaml").is_file()


def until_equal(app: App, sink: Sink, stack: Any, columns: dict[str, str]) -> None:
    """Land and run until each view has the rows of its table."""
    for _ in range(ROUNDS):
        sink.land()
        reports = app.run()
        assert {report.outcome for report in reports} <= {"committed", "idle"}, reports
        made = [report.table for report in reports if any(note.startswith("new table: ") for note in report.notes)]
        assert all(report.outcome == "committed" for report in reports if report.table in made), "a new table is compacted in the run that makes it"
        if columns.keys() <= {*app.settings.names} and not [name for name, each in columns.items() if differs(app, stack, name, each)]:
            return
        time.sleep(SECONDS)
    raise AssertionError([(name, differs(app, stack, name, each)) for name, each in columns.items() if name in app.settings.names])


def differs(app: App, stack: Any, name: str, columns: str) -> set[str]:
    """Rows that only PostgreSQL or only the view has."""
    theirs = {*stack.sql(f"select {columns} from {name}")}
    ours = {"|".join(map(str, json.loads(row).values())) for row in app.sql(f"select {columns} from {name}", engine="spark")}
    return theirs ^ ours
