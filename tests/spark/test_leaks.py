"""What must not be in anything that is written or printed: values of protected columns, records with a key of their own, the secret of hashes."""

from __future__ import annotations

import gzip
import hashlib
import hmac
import json
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from compactor.core.erasure.keys import hashed, with_keys
from compactor.core.model.errors import CompactorError
from compactor.core.model.policy import Protection
from compactor.core.model.snapshot import Erased
from compactor.core.model.spec import Csv, TableSpec
from compactor.flows.read.status import plan
from compactor.flows.run_tables import run_tables
from compactor.flows.table import Table
from compactor.spark.failures import translating
from compactor.spark.rows.erase import gone
from compactor.spark.rows.protect import hashing
from compactor.spark.session import SessionSettings, close_session, open_session
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

SECRET = b"PLANTED secret of hashes"
BLOCKS = tuple(bytes(byte ^ mask for byte in SECRET.ljust(64, b"\0")) for mask in (0x36, 0x5C))
FORBIDDEN = (b"PLANTED", SECRET.hex().encode(), *BLOCKS, *(block.hex().encode() for block in BLOCKS))
"""What is searched, in lower case: every planted value has this word; the secret as bytes and hexadecimal digits, and the blocks made of it."""

RULES = (Protection("ssn", "exclude"), Protection("mail", "hash"), Protection("card", "mask", 4), Protection("note", "null"))
KEY = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
BAD = {"ssn": "PLANTED-1", "mail": "PLANTED-2", "card": "PLANTED-3-4567", "note": "PLANTED-4"}
GOOD = [{"id": key, "seq": 1, "name": "n", **BAD} for key in range(20)]


def leaked(data: bytes) -> bool:
    """Whether something forbidden is in these bytes."""
    low = data.lower()
    return any(each.lower() in low for each in FORBIDDEN)


def csv(*lines: str) -> str:
    """A file with a header, good rows and these lines."""
    good = [f"{row['id']},1,n,PLANTED-1,PLANTED-2,PLANTED-3-4567,PLANTED-4" for row in GOOD]
    return "\n".join(["id,seq,name,ssn,mail,card,note", *good, *lines]) + "\n"


def jsonl(*lines: object) -> str:
    """Good rows, and these lines."""
    return "\n".join(each if isinstance(each, str) else json.dumps(each) for each in (*GOOD, *lines)) + "\n"


TYPES = (("ssn", "date"), ("mail", "bigint"), ("card", "date"), ("note", "decimal(4,1)"))
CASES: dict[str, tuple[str, str, dict[str, object]]] = {
    "good": ("a.json", jsonl(), {}),
    "packed": ("a.json.gz", jsonl(), {}),
    "with_history": ("a.json", jsonl(), {"history": True, "feed": "net"}),
    "no_json": ("a.json", jsonl('{"id": 50, "ssn": "PLANTED-1"', "PLANTED"), {}),
    "no_key": ("a.json", jsonl({"id": None, "seq": 2, **BAD}), {}),
    "no_order": ("a.json", jsonl({"id": 51, "seq": None, **BAD}), {}),
    "no_type": ("a.json", jsonl({"id": "PLANTED", "seq": 2, **BAD}), {"avro_schema": json.dumps({"type": "record", "name": "r", "fields": [
        {"name": "id", "type": "int"}, {"name": "seq", "type": "int"}, *({"name": name, "type": ["null", "int"]} for name in BAD)]})}),
    "unknown_op": ("a.json", jsonl({"id": 52, "seq": 2, "op": "PLANTED", **BAD}), {"op": "op"}),
    "all_invalid": ("a.json", '{"ssn": "PLANTED\n', {}),
    "csv_types": ("a.csv", csv(), {"types": TYPES, "quarantine_share": 1.0}),
    "csv_one_type": ("a.csv", csv("50,1,n,PLANTED-9,x,y,z").replace("PLANTED-1", "2020-01-01"), {"types": (("ssn", "date"),)}),
    "csv_lines": ("a.csv", csv("50,1,n,PLANTED-1", "PLANTED"), {}),
    "csv_twice": ("a.csv", "PLANTED,PLANTED\n1,2\n", {}),
    "csv_delimiter": ("a.csv", "PLANTED;x;y\n1;2;3\n", {"csv": Csv(columns=("id", "seq", "ssn", "mail", "card", "note"), header=False)}),
    "dms_op": ("LOAD00000001.csv", "Op,id,seq,ssn\nPLANTED,1,1,PLANTED-1\n", {"envelope": "dms", "csv": Csv(header=True)}),
    "debezium_op": ("a.json", json.dumps({"op": "PLANTED", "before": None, "after": GOOD[0], "source": {}, "ts_ms": 1}) + "\n", {"envelope": "debezium"}),
    "wal2json_action": ("a.json", json.dumps({"action": "PLANTED", "lsn": "0/1", "columns": []}) + "\n", {"envelope": "wal2json"}),
    "change_type": ("a.json", json.dumps({"changeType": "PLANTED", "columnNames": ["id"], "columnTypes": ["int"], "columnValues": [1]}) + "\n", {
        "envelope": "change-event", "order_by": ()}),
    "no_parquet": ("a.parquet", "PAR1 PLANTED", {}),
    "key_of_its_own": ("a.json", jsonl({"id": None, "seq": 2, **BAD}), {"columns": (), "archive_kms_key": KEY}),
}  # fmt: skip
"""Table → name and content of a landed file, and settings."""


def land(lake: Lake, names: list[str]) -> list[TableSpec]:
    """Land the files of these cases."""
    specs = []
    for name in names:
        file, content, more = CASES[name]
        given: dict[str, object] = {"columns": RULES, "archive": "move", **more}
        if given.get("envelope") in ("dms", "debezium", "wal2json"):
            given.setdefault("order_by", ())
        spec = lake.spec(name, **given)
        path = Path(spec.landing) / "increment_2024030500" / file
        path.parent.mkdir(parents=True)
        path.write_bytes(gzip.compress(content.encode()) if file.endswith(".gz") else content.encode())
        specs.append(spec)
    return specs


def written(lake: Lake) -> dict[str, bytes]:
    """Everything below the warehouse but raw files: bytes, decompressed, and the values of Parquet files. Rows of `key_of_its_own` are no secret."""
    contents = {}
    for path in lake.root.rglob("*"):
        inside = path.relative_to(lake.root).as_posix()
        raw = any(f"/{part}/" in inside for part in ("incremental", "archive", "quarantine")) and not inside.endswith(".reason.json")
        if path.is_file() and not raw and not inside.startswith("key_of_its_own/base/"):
            data = path.read_bytes()
            data = gzip.decompress(data) if path.suffix == ".gz" else data
            if path.suffix == ".parquet":
                data += "\n".join(lake.spark.read.parquet(str(path)).toJSON().collect()).encode()
            contents[inside] = data
    return contents


def run(lake: Lake, names: list[str], capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> dict[str, bytes]:
    """Run these cases. Return everything that was written or printed: objects, the log, reports, checks."""
    caplog.set_level(logging.DEBUG, "compactor")
    specs = land(lake, names)
    checks = [str(each) for spec in specs for each in plan(Table(lake.env, spec), specs).checks]
    reports = run_tables(lake.env, specs, parallel=1)
    assert {report.table for report in reports} == set(names)
    places = {**written(lake), **{f"report of {each.table}": str(each.to_json()).encode() for each in reports}}
    captured = capsys.readouterr()
    places |= {"checks": "\n".join(checks).encode(), "log": caplog.text.encode(), "output": (captured.out + captured.err).encode()}
    assert any(name.endswith("last_run.json") for name in places)
    assert [name for name, data in places.items() if leaked(data)] == []
    return places


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """The secret, in the environment."""
    monkeypatch.setenv("COMPACTOR_HASH_KEY", SECRET.decode())


def test_reports_quote_no_value_that_is_protected(
    lake: Lake, secret: None, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A CSV value of an excluded column that is not of the column's type."""
    run(lake, ["csv_one_type"], capsys, caplog)
    assert lake.unusable(lake.spec("csv_one_type")) == [(21, "column ssn holds (not shown), expected date")]


def test_no_plan_shows_the_secret_of_hashes(spark: SparkSession) -> None:
    """Columns and erased keys; the hashes are those of Python."""
    rows = spark.createDataFrame([("7", "ann"), ("8", None)], "id STRING, mail STRING")
    spec = TableSpec("t", "/t", "/l", "", "d", "t", "d", ("id",))
    erased = with_keys(None, ["7"], SECRET, "t")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COMPACTOR_HASH_KEY", SECRET.decode())
        is_gone = gone(spark, spec, erased)
    hashes = hashing(spark, SECRET)
    others = hashing(spark, b"another secret of hashes")
    made = rows.selectExpr(
        "id", f"{hashes('mail')} AS mail", f"{is_gone('id')} AS gone", f"{hashes(chr(39) + 'x' + chr(39))} AS constant", f"{others('id')} AS other"
    )
    plans = made._jdf.queryExecution()
    shown = [plans.toString(), plans.explainString(spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("extended"))]
    shown += [plan.toJSON() for plan in (plans.logical(), plans.optimizedPlan())] + [plans.debug().codegenToSeq().toString()]
    assert [each for each in shown if leaked(each.encode())] == []
    assert [tuple(row) for row in made.collect()] == [
        ("7", hmac.new(SECRET, b"ann", hashlib.sha256).hexdigest(), True, hashed("x", SECRET), hashed("7", b"another secret of hashes")),
        ("8", None, False, hashed("x", SECRET), hashed("8", b"another secret of hashes")),
    ]


def test_an_error_of_spark_is_named_without_its_message() -> None:
    """Where reports may not quote records; an error of ours is raised as it is."""

    def fails(error: Exception) -> Callable[..., None]:
        def method(spec: TableSpec) -> None:
            raise error

        return translating(method)

    spec = TableSpec("t", "/t", "/l", "", "d", "t", "d", ("id",), columns=RULES)
    cast = PySparkException("[CAST_INVALID_INPUT] The value 'PLANTED' of the type STRING cannot be cast")
    with pytest.raises(RuntimeError, match=r"^PySparkException \[CAST_INVALID_INPUT\]; its message is not shown") as shown:
        fails(cast)(spec)
    assert shown.value.__suppress_context__
    with pytest.raises(CompactorError, match="as it is"):
        fails(CompactorError("as it is"))(spec)
    with pytest.raises(PySparkException, match="PLANTED"):
        fails(cast)(TableSpec("t", "/t", "/l", "", "d", "t", "d", ("id",)))


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[SparkSession]:
    """A session of its own as protected tables have it, with an event log and a local disk of its own."""
    conf = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{tmp_path}/events", "spark.local.dir": f"{tmp_path}/disk"}
    (tmp_path / "events").mkdir()
    settings = SessionSettings(None, f"{tmp_path}/metastore", f"{tmp_path}/spark", master="local[2]", conf=tuple(conf.items()), encrypted=True)
    session = open_session(settings)
    yield session
    close_session(session)


@pytest.mark.slow
@pytest.mark.own_spark
def test_no_success_and_no_failure_leaks(
    recorded: SparkSession, tmp_path: Path, secret: None, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Every kind of input that cannot be used: in objects, reports, logs, event logs, and on Spark's disks, where raw rows are before the rules apply."""
    (tmp_path / "lake").mkdir()
    lake = Lake(recorded, tmp_path / "lake")
    places = run(lake, [*CASES], capsys, caplog)
    hidden = {
        name for name in CASES for place, data in places.items() if place.startswith((f"{name}/", f"report of {name}")) and b"(not shown" in data
    }
    # the others quote nothing, or succeed
    assert hidden == {*CASES} - {"good", "packed", "with_history", "no_type", "all_invalid", "no_parquet"}
    # raw rows as a large batch has them: in a shuffle and on the disk
    place = Path(lake.spec("good").root) / "archive"
    rows = recorded.read.text(str(place / "increment_2024030500" / "a.json")).repartition(4, "value").persist(StorageLevel.DISK_ONLY)
    assert rows.count() == len(GOOD)
    on_disk = {path.name: path.read_bytes() for path in (tmp_path / "disk").rglob("*") if path.is_file()}
    assert {name.split("_")[0] for name in on_disk} >= {"rdd", "shuffle"}
    assert [name for name, data in on_disk.items() if leaked(data)] == []
    deadline = time.monotonic() + 30
    events = b""
    while b"SparkListenerSQLExecutionEnd" not in events and time.monotonic() < deadline:
        events = b"".join(path.read_bytes() for path in (tmp_path / "events").iterdir())
        time.sleep(0.5)
    assert b"compactor_hash_" in events
    assert not leaked(events)


def test_erased_keys_are_kept_as_hashes() -> None:
    """Neither the key nor the secret can be read from them."""
    erased: Erased = with_keys(None, ["PLANTED"], SECRET, "t")
    assert not leaked(json.dumps([erased.secret, *erased.keys]).encode())
