"""`make demo-stack`: PostgreSQL → Debezium → Kafka → `compactor ingest` → `compactor run` → a view, all real, and compared at the end.

Starts everything on this machine in a scratch directory, and ends it again. Needs Java 17, Maven and PostgreSQL's programs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.parts.stack import PREFIX, Stack, source

SCHEMA = """
create table student (id int primary key, name text not null, town text, fee numeric(12, 2), born date, seen timestamptz default now());
alter table student replica identity default;
create table enrollment (student_id int, course text, grade numeric(2, 1), primary key (student_id, course));
insert into student (id, name, town, fee, born) select n, 'student ' || n, (array['Ulm', 'Bonn', null])[n % 3 + 1], n * 1.25, date '2000-01-01' + n
  from generate_series(1, 1000) n;
insert into enrollment select n, 'course ' || n % 7, null from generate_series(1, 1000) n;
"""
CHANGES = """
update student set town = 'Köln', fee = fee + 0.10 where id % 10 = 0;
delete from student where id % 50 = 7;
update student set id = id + 100000 where id % 100 = 1;
begin; delete from student where id = 5; insert into student (id, name) values (5, 'again'); commit;
insert into student (id, name, fee) values (2001, 'O''Brien "Q" 名前', 99999999.99);
update enrollment set grade = 1.3 where student_id < 20;
alter table student add column level int default 3;
update student set level = 4 where id between 20 and 30;
"""
TABLES = {"student": ["id"], "enrollment": ["student_id", "course"]}


def config(stack: Stack, home: Path) -> Path:
    """The configuration of the two tables."""
    tables = {name: {"key": key, "topic": f"{PREFIX}.public.{name}"} for name, key in TABLES.items()}
    path = home / "compactor.yaml"
    path.write_text(
        f"warehouse: {home / 'warehouse'}\ncatalog: {{database: school}}\nkafka: '{stack.servers}'\n"
        f"defaults: {{envelope: debezium}}\ntables: {json.dumps(tables)}\n"
    )
    return path


def compactor(path: Path, *words: str) -> str:
    """One command, shown as a user would type it."""
    print(f"\n$ compactor {' '.join(words)}", flush=True)
    command = [sys.executable, "-m", "compactor", *words, "--config", str(path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 - our own program
    print(done.stdout, flush=True)
    return done.stdout


def differing(stack: Stack, path: Path) -> list[str]:
    """Columns of rows that differ between PostgreSQL and the view; one that only one side has is named by its key."""
    found = []
    for name, key in TABLES.items():
        columns = [line.split("|")[0] for line in stack.sql(f"select column_name from information_schema.columns where table_name = '{name}'")]
        plain = ", ".join(f"extract(epoch from {one})::text as {one}" if one == "seen" else f"{one}::text as {one}" for one in columns)
        theirs = [json.loads(line) for line in stack.sql(f"select row_to_json(t) from (select {plain} from {name}) t")]
        ours = ", ".join(
            f"cast(cast({one} as decimal(20, 6)) as string) as {one}" if one == "seen" else f"cast({one} as string) as {one}" for one in columns
        )
        mine = json.loads(compactor(path, "sql", f"select {ours} from {name}", "--engine", "spark", "--output", "json"))
        by_key = [{tuple(row[part] for part in key): row for row in rows} for rows in (theirs, mine)]
        for place in sorted(by_key[0].keys() | by_key[1].keys()):
            left, right = (rows.get(place, {}) for rows in by_key)
            found += [f"{name} {place} {one}: {left.get(one)!r}, view {right.get(one)!r}" for one in columns if left.get(one) != right.get(one)]
    return found


def wait_for(stack: Stack, path: Path, marker: int) -> None:
    """Until a marker row, written last, has come through: then everything before it has."""
    stack.sql(f"insert into enrollment values ({marker}, 'marker', null)")
    for _ in range(60):
        compactor(path, "ingest")
        compactor(path, "run")
        if "1" in compactor(path, "sql", f"select count(*) as n from enrollment where student_id = {marker}", "--output", "csv").split():
            return
        time.sleep(2)
    raise SystemExit(f"the change {marker} did not come through within 60 rounds; see the logs in {stack.home}")


def show(home: Path) -> list[str]:
    """The whole way, twice: after the snapshot and after changes. What differs at the end."""
    with source(home) as stack:
        print(f"PostgreSQL, Kafka and Debezium run; their logs are in {home}", flush=True)
        stack.sql(SCHEMA)
        stack.connect()
        path = config(stack, home)
        wait_for(stack, path, -1)
        stack.sql(CHANGES)
        wait_for(stack, path, -2)
        compactor(path, "sql", "select town, count(*) as students, sum(fee) as fees from student group by town order by town")
        compactor(path, "verify")
        return differing(stack, path)


def main() -> None:
    """Show it, and end with 1 when PostgreSQL and the view differ."""
    with tempfile.TemporaryDirectory(prefix="compactor-stack-") as home:
        found = show(Path(home))
    print("\n".join(found[:20]) or "The views equal PostgreSQL's tables.")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
