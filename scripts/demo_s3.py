"""`make demo-s3`: the demo with its warehouse on an S3 server and its views in a Hive metastore on PostgreSQL; nothing else is changed.

Starts both on this machine in a scratch directory, types the commands a user types, compares the views with what PostgreSQL, the source, held
at the end, and ends everything again. Needs a JDK and PostgreSQL's programs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path

import boto3

from compactor.app.app import App
from compactor.demo import HERE
from tests.capture import truth
from tests.parts.metastore import metastore
from tests.parts.s3 import CREDENTIALS, s3_server

STEPS = {"00 to 04": range(5), "05 to 08": range(5, 9)}
WAREHOUSE = "s3://lake/school"
FORM = "debezium_json_value"
"""How `tests/capture` calls what the demo lands: which cells of it no merger can get right."""


def config(home: Path, thrift: str) -> Path:
    """The demo's own configuration, with another warehouse and a shared metastore."""
    text = (HERE / "compactor.yaml").read_text(encoding="utf-8")
    for old, new in (("warehouse: .  ", f"warehouse: {WAREHOUSE}  "), ("  database: school  ", f"  uri: {thrift}\n  database: school  ")):
        if text.count(old) != 1:
            raise SystemExit(f"{HERE / 'compactor.yaml'} has changed: expected {old!r} in it once")
        text = text.replace(old, new)
    path = home / "compactor.yaml"
    path.write_text(f"{text}\ns3: {{path_style: true}}\n", encoding="utf-8")
    return path


def deliver(url: str, hours: Iterable[int]) -> int:
    """What a sink does: the files of these hours as objects. How many."""
    client, number = boto3.session.Session().client("s3", endpoint_url=url, region_name="us-east-1"), 0
    for hour in hours:
        for source in sorted((HERE / "landing").glob(f"*/incremental/increment_20240305{hour:02}/*")):
            key = f"school/{source.relative_to(HERE / 'landing').as_posix()}"
            client.put_object(Bucket="lake", Key=key, Body=source.read_bytes())
            number += 1
    return number


def compactor(path: Path, *words: str) -> None:
    """One command, shown as a user would type it."""
    print(f"\n$ compactor {' '.join(words)}", flush=True)
    command = [sys.executable, "-m", "compactor", *words, "--config", str(path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 - our own program
    print(done.stdout, flush=True)


def differing(path: Path) -> list[str]:
    """Cells that differ between the views and PostgreSQL's own dump at the end of hour 08; by the API, which starts Spark once for all of them."""
    found = []
    with App.open(path) as app:
        for table in app.settings.names:
            rows = [json.loads(row, parse_float=Decimal) for row in app.sql(f"select * from {table}", engine="spark")]
            differences = truth.differences(rows, truth.truth(8)[table], FORM)
            found += [str(one) for one in truth.unexpected(differences, FORM, 8)]
    return found


def show(home: Path) -> list[str]:
    """The whole way. What differs at the end."""
    os.environ.update(CREDENTIALS)
    with s3_server(home / "s3.log") as server, metastore(home, "postgres", s3=server.url) as thrift:
        server.bucket("lake")
        os.environ["AWS_ENDPOINT_URL_S3"] = server.url
        path = config(home, thrift)
        print(f"S3 answers at {server.url}, the metastore at {thrift}; their logs are in {home}", flush=True)
        for name, hours in STEPS.items():
            print(f"\nHour {name}: {deliver(server.url, hours)} files land in {WAREHOUSE}", flush=True)
            compactor(path, "run")
        compactor(path, "sql", "select id, full_name, birth_date, tuition, email from student order by id limit 5")
        compactor(path, "status")
        compactor(path, "log", "student")
        compactor(path, "verify", "--deep", "--files-only")
        compactor(path, "rebuild", "enrollment")
        compactor(path, "versions", "vacuum")
        return differing(path)


def main() -> None:
    """Show it, and end with 1 when the source and the views differ."""
    with tempfile.TemporaryDirectory(prefix="compactor-s3-") as home:
        found = show(Path(home))
    print("\n".join(found[:20]) or "The views equal PostgreSQL's tables.")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
