"""Tables that appear, tables that fall silent, and folders that no table takes: what a person sees of a fleet, without Spark."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import boto3
import pytest
from typer.testing import CliRunner

from benchmarks.fleet import counted
from compactor.app import App
from compactor.cli import main as cli
from compactor.config.settings import load
from compactor.core.model.errors import CompactorError, ConfigError, Refused, Unavailable
from compactor.core.results.record import RunRecord
from compactor.core.results.timeline import silent
from compactor.storage.local import LocalStorage
from tests.parts.s3 import Server
from tests.parts.s3_fixtures import s3_endpoint, server
from tests.report import synthetic

__all__ = ["s3_endpoint", "server"]

ENTRY = "{from: 'topics/pg.{schema}.{table}', name: '{schema}_{table}', envelope: debezium}"


def invoked(*words: str) -> tuple[int, str]:
    """The command in this process: exit code and what it prints."""
    done = CliRunner().invoke(cli.app, [*words], env={"COLUMNS": "200"})
    if isinstance(done.exception, CompactorError):
        raise done.exception
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout


def written(home: Path, text: str) -> Path:
    """A configuration whose warehouse is its folder."""
    home.mkdir(parents=True, exist_ok=True)
    path = home / "compactor.yaml"
    path.write_text(f"warehouse: .\n{text}", encoding="utf-8")
    return path


def landed(path: Path, *documents: Any) -> None:
    """A file of JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(each)}\n" for each in documents), encoding="utf-8")


def change(id_: int, table: str = "orders") -> dict[str, Any]:
    """A row that Debezium sends."""
    source = {"connector": "postgresql", "schema": "shop", "table": table, "lsn": id_, "sequence": f'["{id_}","{id_}"]', "ts_ms": id_}
    return {"op": "c", "before": None, "after": {"id": id_, "line": 1, "v": "x"}, "source": source, "ts_ms": id_}


def record(id_: int, *names: str, table: str = "orders") -> dict[str, Any]:
    """A whole Kafka record whose key has these columns."""
    key = dict.fromkeys(names, 1) or None
    return {"topic": f"pg.shop.{table}", "partition": 0, "offset": id_, "key": json.dumps(key) if key else None, "value": change(id_, table)}


HOUR = "2026/11/20/14/part-0.json"

CASES: dict[str, tuple[str, dict[str, list[Any]], str | None, str]] = {
    "whole Kafka records have a key": ("", {HOUR: [record(1, "id"), record(2, "id")]}, "[id]", "key id by the keys of the Kafka records"),
    "a key of two columns": ("", {HOUR: [record(1, "line", "id")]}, "[line, id]", "key line, id"),
    "records with keys of different columns": ("", {HOUR: [record(1, "id"), record(2, "id", "line")]}, None, "keys of different columns"),
    "records without a key": ("", {HOUR: [record(1)]}, None, "has no key"),
    "values alone": ("", {HOUR: [change(number) for number in range(1, 60)]}, None, '"key": ["id"]'),
    "values with Connect's file of keys": (
        "",
        {
            "2026/11/20/14/pg.shop.orders+0+0.json": [change(1)],
            "2026/11/20/14/pg.shop.orders+0+0.keys.json": [{"schema": {"type": "struct", "name": "pg.shop.orders.Key"}, "payload": {"id": 1}}],
        },
        "[id]",
        "key id by the keys of its records in 2026/11/20/14/pg.shop.orders+0+0.keys.json",
    ),
    "a file of keys without a schema proves nothing": (
        "",
        {"2026/11/20/14/pg.shop.orders+0+0.json": [change(1)], "2026/11/20/14/pg.shop.orders+0+0.keys.json": [{"id": 1}]},
        None,
        '"key": ["id"]',
    ),
    "a person has set the key": ("key: [id]", {HOUR: [change(1)]}, "[id]", "key id by the entry of `discover:`"),
    "DMS with a table definition": (
        "envelope: dms",
        {"LOAD00000001.csv": [], "_definition.json": [{"TableColumns": [{"ColumnName": "id", "ColumnIsPk": "true"}, {"ColumnName": "v"}]}]},
        "[id]",
        "key id by the table definition _definition.json",
    ),
    "another envelope than expected": ("", {HOUR: [{"id": 1, "updated_at": 5}]}, None, "look like `envelope: flat`"),
    "an operation of another name": (
        "envelope: flat, key: [id], order_by: [pos]",
        {HOUR: [{"id": 1, "pos": 1, "op_type": "I"}, {"id": 1, "pos": 2, "op_type": "D"}]},
        None,
        "The values of op_type look like operations",
    ),
    "two source tables in one folder": ("", {HOUR: [change(1), change(2, "lines")]}, None, "several source tables (shop.orders, shop.lines)"),
}


@pytest.mark.parametrize(("keys", "files", "key", "sentence"), CASES.values(), ids=CASES.keys())
def test_a_folder_becomes_a_table_if_its_source_names_the_key(
    tmp_path: Path, keys: str, files: dict[str, list[Any]], key: str | None, sentence: str
) -> None:
    """Otherwise it waits, and `check` has the line to write. Never does a key come from values."""
    extra = keys if keys.startswith("envelope") else f"envelope: debezium{', ' if keys else ''}{keys}"
    csv = ", csv: {header: true}, order_by: [v]" if "dms" in keys else ""
    config = written(tmp_path, f"discover:\n  - {{from: 'topics/pg.{{schema}}.{{table}}', name: '{{schema}}_{{table}}', {extra}{csv}}}\n")
    for name, documents in files.items():
        landed(tmp_path / "topics/pg.shop.orders" / name, *documents)
    if "dms" in keys:
        (tmp_path / "topics/pg.shop.orders/LOAD00000001.csv").write_text("Op,id,v\nI,1,2\n", encoding="utf-8")
    _, shown = invoked("check", "--config", str(config))
    assert sentence in shown
    assert ("the next run makes table shop_orders" in shown) == (key is not None), "the dry run"
    assert not (tmp_path / "tables.d").exists(), "`check` writes nothing"
    with App.open(config) as app:
        made = app.add_tables()
        assert [spec.name for spec in app.specs()] == (["shop_orders"] if key else [])
    assert [bool(each.waits) for each in made] == [key is None]
    if key is not None:
        text = (tmp_path / "tables.d/shop_orders.yaml").read_text(encoding="utf-8")
        assert f"key: {key}" in text
        assert sentence in text, "the evidence is in the file"
        assert app.add_tables() == [], "once"
        assert "no table takes" not in invoked("status", "--config", str(config))[1]


@pytest.mark.parametrize("where", ["defaults", "entry"])
def test_settings_that_are_given_are_not_asked_for(tmp_path: Path, where: str) -> None:
    """In `defaults:` or in the entry: the table is certain, and its file repeats no question about them."""
    defaults, entry = ("defaults: {order_by: [seq]}\n", "") if where == "defaults" else ("", ", order_by: [seq]")
    config = written(tmp_path, f"{defaults}discover:\n  - {{from: 'topics/{{table}}', key: [id]{entry}}}\n")
    landed(tmp_path / "topics/orders" / HOUR, {"op": "c", "id": 1, "v": "x", "seq": 1})
    with App.open(config) as app:
        assert [each.waits for each in app.add_tables()] == [""]
        assert app.settings.spec("orders").order_by == ("seq",)
    text = (tmp_path / "tables.d/orders.yaml").read_text(encoding="utf-8")
    assert "key: [id]" in text
    assert "order the changes" not in text
    assert "#order_by" not in text


def test_what_a_person_may_do_with_the_files_of_tables(tmp_path: Path) -> None:
    """Edit them, and move tables to and fro; a mistake is reported with its file and line."""
    config = written(tmp_path, f"discover: [{ENTRY}]\ntables: {{a: {{key: [id], envelope: debezium}}}}\n")
    folder = tmp_path / "tables.d"
    folder.mkdir()
    (folder / "b.yaml").write_text("tables:\n  b: {key: [id, line], envelope: debezium}\n", encoding="utf-8")
    assert load(config, {}).spec("b").key == ("id", "line")
    for text, message in {
        "tables:\n  a: {key: [id]}\n": r"b\.yaml:2: table a is also in .*compactor\.yaml:3; remove one",
        "tables:\n  b:\n    kee: [id]\n": r"b\.yaml:3: table b, key kee: unknown key; did you mean keep",
        "warehouse: x\n": r"b\.yaml: expected `tables:`",
        "tables: [": r"b\.yaml:1: invalid YAML",
    }.items():
        (folder / "b.yaml").write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match=message):
            load(config, {})


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{from: topics/orders}", "names in braces"),
        ("{name: x}", "expected entries such as"),
        ("{from: 'topics/{table}', name: '{schema}'}", "expected names of `from` in braces, such as {table}, found {schema}"),
        ("{from: 'topics/{table}/%Y/%Q'}", "found %Q"),
        ("{from: 'topics/{table}', at_most: 0}", "`at_most`: expected a whole number from 1 on, found 0"),
        ("{from: 'topics/{table}', exclude: audit}", "`exclude`: expected a list"),
        ("{from: 'topics/{table}', envelop: debezium}", "unknown key; did you mean envelope"),
        ("{from: 'topics/{table}', increments: x}", "each table has its own"),
    ],
)
def test_a_mistake_in_an_entry_is_reported(tmp_path: Path, entry: str, message: str) -> None:
    """With what was expected."""
    with pytest.raises(ConfigError) as error:
        load(written(tmp_path, f"discover: [{entry}]\n"), {})
    assert message in str(error.value)


ROWS = [{"id": number, "line": 1, "seq": number} for number in range(1, 30)]

MISTAKES = {
    "a key that no row has": ("plain/{table}', key: [ident], order_by: [seq]", "no sampled file has ident"),
    "an order that no row has": ("plain/{table}', key: [id], order_by: [sqe]", "did you mean seq?"),
    "a key that rows share": ("plain/{table}', key: [line], order_by: [seq]", "Correct `key:`, or rows are lost"),
    "an envelope that the rows do not have": ("plain/{table}', key: [id], envelope: debezium", "look like `envelope: flat`"),
    "a pattern of other folders": ("plain/{table}/increment_%Y%m%d%H', key: [id], order_by: [seq]", "no file lies in folders that fit"),
    "a folder that is not there": ("plian/{table}', key: [id], order_by: [seq]", "no folder fits"),
    "a name of folders that no folder has": ("plain/mysql.{table}', key: [id], order_by: [seq]", "no folder fits"),
    "no order": ("plain/{table}', key: [id]", '"order_by": ["seq"]'),
}


@pytest.mark.parametrize(("entry", "sentence"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_that_the_files_show_keeps_a_folder_waiting(tmp_path: Path, entry: str, sentence: str) -> None:
    """It is named with what to correct, before a run makes the table."""
    config = written(tmp_path, f"discover: [{{from: '{entry}}}]\n")
    landed(tmp_path / "plain/orders" / HOUR, *ROWS)
    assert sentence in invoked("check", "--config", str(config))[1]
    with App.open(config) as app:
        app.add_tables()
        assert app.settings.names == ()


def test_limits_and_exclusions(tmp_path: Path) -> None:
    """`at_most` counts the tables that are there; a table whose name is taken waits; what is excluded is named by nobody."""
    config = written(
        tmp_path,
        "discover: [{from: 'topics/{table}', exclude: ['audit*'], at_most: 2, envelope: debezium}, {from: 'other/{table}', exclude: ['*']}]\n"
        "tables: {d: {key: [id], envelope: debezium, increments: elsewhere/d}}\n",
    )
    for name in ("audit_log", "a", "b", "c", "d", "_hidden"):
        landed(tmp_path / "topics" / name / HOUR, record(1, "id", table=name))
    with App.open(config) as app:
        made = app.add_tables()
        assert [(each.source.rpartition("/")[2], bool(each.waits)) for each in made] == [("a", False), ("b", False), ("c", True), ("d", True)]
        assert "`at_most: 2`" in made[2].waits
    config.write_text(config.read_text().replace("at_most: 2", "at_most: 5"), encoding="utf-8")
    with App.open(config) as app:
        assert [(each.source.rpartition("/")[2], "is there already" in each.waits) for each in app.add_tables()] == [("c", False), ("d", True)]


def test_no_other_entry_takes_the_folders_of_one_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two entries that fit a folder the first one counts, whatever the store answers at the moment."""
    entries = "{from: 'in/pg/{table}', name: 'pg_{table}'}, {from: 'in/{db}/{table}', name: 'any_{db}_{table}'}"
    config = written(tmp_path, f"discover: [{entries}]\ntables: {{a: {{key: [id], envelope: flat}}}}\n")
    landed(tmp_path / "in/pg/orders" / HOUR, record(1, "id", table="orders"))
    listed, refused = LocalStorage.folders, []

    def folders(storage: LocalStorage, prefix: str) -> Any:
        if prefix.rstrip("/").endswith("in/pg") and not refused:
            refused.append(prefix)
            raise Unavailable("the store does not answer")
        return listed(storage, prefix)

    monkeypatch.setattr(LocalStorage, "folders", folders)
    with App.open(config) as app:
        (waiting,) = app.add_tables()
        assert "the store does not answer" in waiting.waits
        assert [table.name for table in app.add_tables()] == ["pg_orders"]


def test_what_a_new_folder_needs_does_not_stop_the_configured_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a registry that is down nor a place that may not be listed: what needs them waits with the reason."""
    config = written(
        tmp_path,
        "registry: {url: 'http://registry:8081'}\ndiscover: [{from: 'shut/{table}'}, {from: 'topics/{table}'}]\ntables: {a: {key: [id], envelope: flat}}\n",
    )
    landed(tmp_path / "topics/b" / HOUR, record(1, "id", table="b"))

    def down(app: App) -> Any:
        raise Unavailable("registry:8081 does not answer")

    def folders(storage: LocalStorage, prefix: str) -> Any:
        if "shut" in prefix:
            raise Refused("shut may not be listed")
        return listed(storage, prefix)

    listed = LocalStorage.folders
    monkeypatch.setattr(App, "registry", down)
    monkeypatch.setattr(LocalStorage, "folders", folders)
    with App.open(config) as app:
        assert [(report.table, report.outcome) for report in app.run()] == [("a", "idle")]
        shut, waiting = app.add_tables()
    assert (shut.source, "may not be listed" in shut.waits) == (f"{tmp_path}/shut/{{table}}", True)
    assert (waiting.source, "does not answer" in waiting.waits) == (f"{tmp_path}/topics/b", True)
    monkeypatch.setattr(LocalStorage, "folders", listed)
    assert "topics/b waits: its key may be in the registry: registry:8081" in invoked("check", "--config", str(config))[1]


@pytest.mark.parametrize("command", ["status", "plan", "check"])
def test_a_place_that_may_not_be_listed_stops_nobody_who_looks(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of `discover:` is named with the reason. That folders lie beside those of tables is found out where listing is allowed, else not."""
    config = written(
        tmp_path, "discover: [{from: 'shut/{table}'}]\ntables: {a: {key: [id], increments: topics/a}, b: {key: [id], increments: topics/b}}\n"
    )

    def folders(storage: LocalStorage, prefix: str) -> Any:
        raise Refused(f"{prefix} may not be listed")

    monkeypatch.setattr(LocalStorage, "folders", folders)
    shown = invoked(command, "--config", str(config))[1]
    assert f"{tmp_path}/shut/{{table}} waits: it cannot be listed: {tmp_path}/shut may not be listed" in shown
    assert f"{tmp_path}/topics may not be listed" not in shown


def test_init_adds_tables_once(tmp_path: Path) -> None:
    """By the entries of `discover:`, or below a folder; with --dry-run it only says which."""
    config = written(tmp_path, "tables: {a: {key: [id], envelope: debezium}}\n")
    landed(tmp_path / "topics/b" / HOUR, record(1, "id", table="b"))
    landed(tmp_path / "topics/c" / HOUR, record(1, table="c"))
    words = ("init", "--add", "--from", str(tmp_path / "topics"), "--config", str(config))
    code, shown = invoked(*words, "--dry-run")
    assert code == 0
    assert "the next run makes table b" not in shown
    assert "table b" in shown
    assert not (tmp_path / "tables.d").exists()
    code, shown = invoked(*words, "--output", "json")
    result = json.loads(shown)
    assert [(each["table"], each["added"]) for each in result["tables"]] == [("b", True), ("c", False)]
    assert '"key": []' in result["tables"][1]["waits"]
    assert load(config, {}).names == ("a", "b")


def test_a_folder_beside_those_of_tables_is_named(tmp_path: Path) -> None:
    """In `status` and `check`, also without `discover:`: in the warehouse, and where two tables have theirs; not what is no data."""
    config = written(tmp_path, "defaults: {key: [id], envelope: debezium}\ntables: {a: {increments: topics/a}, b: {increments: topics/b}, c: {}}\n")
    for path in ("topics/a", "topics/b", "topics/new", "c/incremental/increment_2026112014", "old/incremental/increment_2026112014"):
        landed(tmp_path / path / "part-0.json", change(1))
    landed(tmp_path / "topics/_tmp/part-0.json", change(1))
    (tmp_path / "topics/docs").mkdir()
    (tmp_path / "topics/docs/README").write_text("no data", encoding="utf-8")
    for words in (("status",), ("check", "--no-samples")):
        code, shown = invoked(*words, "--config", str(config))
        assert code == 0
        lines = [line.strip() for line in shown.splitlines() if "no table takes" in line]
        assert [line.partition("no table takes the files in ")[2].partition(",")[0] for line in lines] == [
            str(tmp_path / "old/incremental"),
            str(tmp_path / "topics/new"),
        ]
    assert "no table takes" not in invoked("status", "a", "--config", str(config))[1], "asked about one table"
    page = tmp_path / "report.html"
    for words, count in (((), 2), (("a",), 0), (("--as-of", "2026-01-01"), 0)):
        assert invoked("report", *words, "--out", str(page), "--config", str(config))[0] == 0
        assert page.read_text(encoding="utf-8").count("No table takes the files in ") == count
    plans = json.loads(invoked("check", "--no-samples", "--output", "json", "--config", str(config))[1])
    assert [check["name"] for check in plans[-1]["checks"]] == ["folders of no table"] * 2
    assert plans[-1]["table"] == ""


def test_the_folder_of_a_table_is_none_that_waits_for_one(tmp_path: Path) -> None:
    """Its archive lies beside a landing folder that is in the warehouse itself."""
    config = written(tmp_path, "tables: {t: {key: [id], envelope: debezium, increments: land}}\n")
    for path in ("land", "t/archive/hour=1", "other"):
        landed(tmp_path / path / "part-0.json", change(1))
    shown = invoked("status", "--config", str(config))[1]
    assert f"no table takes the files in {tmp_path}/other," in shown
    assert f"{tmp_path}/t," not in shown


HOURLY = [3600.0 * hour for hour in range(30)]


@pytest.mark.parametrize(
    ("arrivals", "later", "expected"),
    [
        (HOURLY, 2 * 3600.0, None),
        (HOURLY, 5 * 3600.0, "no file since 1970-01-02 05:00; before, one arrived every hour"),
        (HOURLY[:3], 9 * 3600.0, None),
        ([60.0 * minute for minute in range(9)], 1800.0, None),
        ([300.0 * minute for minute in range(9)], 7200.0, "no file since 1970-01-01 00:40; before, one arrived every 5 min"),
        ([86400.0 * day for day in range(9)], 2 * 86400.0, None),
        ([86400.0 * day for day in range(9)], 5 * 86400.0, "no file since 1970-01-09 00:00; before, one arrived every day"),
        ([*HOURLY, 60 * 3600.0, 61 * 3600.0], 40 * 3600.0, None),
    ],
    ids=["soon", "silent", "too few to know", "within the hour", "minutes", "daily", "days without", "no longer than a weekend"],
)
def test_silence(arrivals: list[float], later: float, expected: str | None) -> None:
    """A table is silent if nothing has arrived for much longer than usual."""
    assert silent(arrivals, arrivals[-1] + later) == expected


def test_of_many_tables_those_that_need_somebody_come_first(tmp_path: Path) -> None:
    """The others are counted; --only shows those in a state."""
    config = written(tmp_path, "defaults: {key: [id], envelope: debezium}\ntables:\n" + "".join(f"  t{number:02}: {{}}\n" for number in range(20)))
    hour = time.strftime("%Y%m%d%H", time.gmtime())
    landed(tmp_path / f"t03/incremental/increment_{hour}/a.json", change(1))
    landed(tmp_path / "t07/incremental/increment_2026010100/a.json", change(1))
    os.makedirs(tmp_path / "t09/_compactor")
    failed = {"outcome": "failed", "failures": 2, "failing_since": "2026-11-20T12:00:00Z", "ended": "2026-11-20T13:00:00Z", "error": "broken"}
    (tmp_path / "t09/_compactor/last_run.json").write_bytes(RunRecord("t09", **failed).to_bytes())
    shown = invoked("status", "--config", str(config))[1].splitlines()
    assert [line.split()[0] for line in shown[1:3]] == ["t09", "t07"]
    assert shown[3] == "1 waiting, 1 file; 17 idle (--verbose shows all)"
    assert "t07: files of 2026-01-01 00:00 still wait in landing" in shown
    for states, expected in {"failed": ["t09"], "late": ["t07"], "failed, late": ["t09", "t07"], "waiting": ["t03"]}.items():
        found = json.loads(invoked("status", "--only", states, "--output", "json", "--config", str(config))[1])
        assert {item["table"] for item in found} == {*expected}
    assert len(json.loads(invoked("status", "--only", "idle", "--output", "json", "--config", str(config))[1])) == 17
    assert invoked("status", "--only", "asleep", "--config", str(config))[0] == 2


def test_looking_at_tables_on_s3_lists_at_most_three_times_a_table(server: Server, s3_endpoint: None, tmp_path: Path) -> None:
    """With and without versions, with and without files; `discover:` and neighbours cost one listing for all tables together."""
    names = [f"t{number}" for number in range(10)]
    config = tmp_path / "compactor.yaml"
    config.write_text(
        "warehouse: s3://lake/fleet\ndiscover: [{from: 'topics/{table}', envelope: debezium}]\n"
        "defaults: {key: [id], envelope: debezium}\ntables:\n" + "".join(f"  {name}: {{}}\n" for name in names),
        encoding="utf-8",
    )
    client = boto3.client("s3")
    snapshot = max(synthetic.snapshots(9), key=lambda each: each.version)
    for at, name in enumerate(names):
        if at % 3:
            key = f"fleet/{name}/incremental/increment_2026112013/a.json"
            client.put_object(Bucket="lake", Key=key, Body=json.dumps(change(1)).encode())
        if at % 2:
            folder = f"fleet/{name}/_compactor/snapshots"
            client.put_object(Bucket="lake", Key=f"{folder}/{9:020d}.json", Body=snapshot.to_bytes().replace(b"@table", name.encode()))
            client.put_object(Bucket="lake", Key=f"{folder}/latest", Body=b"9")
    for name in ("new", "other"):
        client.put_object(Bucket="lake", Key=f"fleet/topics/{name}/{HOUR}", Body=json.dumps(record(1, "id", table=name)).encode())
    for call in (lambda app: app.status(), lambda app: app.plan(samples=False), lambda app: app.idle()):
        with App.open(config) as app, counted() as requests:
            call(app)
        assert 0 < requests["list_objects_v2"] <= 3 * len(names) + 2
    with App.open(config) as app, counted() as requests:
        lines = app.folders()
    assert [line.partition(",")[0] for line in lines] == [f"no table takes the files in s3://lake/fleet/topics/{name}" for name in ("new", "other")]
    assert requests["list_objects_v2"] <= 3 + len(lines), "the warehouse, topics/, a folder of the warehouse without files, and one for each line"


def test_tables_are_added_to_a_folder_in_s3(server: Server, s3_endpoint: None, tmp_path: Path) -> None:
    """Where nobody may write beside the configuration; another machine reads them from there."""
    text = "warehouse: s3://lake/own\ndiscovered: s3://lake/own/_compactor/tables.d\ndiscover: [{from: 'topics/{table}', envelope: debezium}]\n"
    boto3.client("s3").put_object(Bucket="lake", Key=f"own/topics/orders/{HOUR}", Body=json.dumps(record(1, "id")).encode())
    for machine in ("one", "two"):
        config = tmp_path / machine / "compactor.yaml"
        config.parent.mkdir()
        config.write_text(text, encoding="utf-8")
        with App.open(config) as app:
            assert [each.name for each in app.add_tables()] == (["orders"] if machine == "one" else [])
            assert [(spec.name, spec.landing) for spec in app.specs()] == [("orders", "s3://lake/own/topics/orders")]
    with App.open(tmp_path / "two" / "compactor.yaml") as app:
        assert app.add_tables() == []


def test_the_log_of_a_table_has_the_reason_why_it_was_made(tmp_path: Path) -> None:
    """And whoever looks before the first run sees it, too."""
    config = written(tmp_path, f"discover: [{ENTRY}]\n")
    landed(tmp_path / "topics/pg.shop.orders" / HOUR, record(1, "id"))
    with App.open(config) as app:
        app.add_tables()
    assert "made by `discover:`: " in (shown := invoked("log", "shop_orders", "--config", str(config))[1])
    assert "key id by the keys of the Kafka records (1 row sampled); added 20" in shown


def test_the_warehouse_beside_landing_folders_is_none(tmp_path: Path) -> None:
    """Its archive holds what tables have taken."""
    config = written(tmp_path / "w", "defaults: {key: [id], envelope: debezium}\ntables: {a: {increments: ../a}, b: {increments: ../b}}\n")
    for path in ("a", "b", "new", "w/a/archive/x"):
        landed(tmp_path / path / "part-0.json", change(1))
    code, shown = invoked("status", "--config", str(config))
    assert code == 0
    lines = [line for line in shown.splitlines() if "no table takes" in line]
    assert len(lines) == 1
    assert f"the files in {tmp_path / 'new'}," in lines[0]


def test_a_folder_of_files_that_only_spark_unpacks_waits(tmp_path: Path) -> None:
    """Nobody knows what their rows need: an operation, an order."""
    config = written(tmp_path, "discover: [{from: 'topics/{table}', key: [id], order_by: [seq]}]\n")
    (tmp_path / "topics/b").mkdir(parents=True)
    (tmp_path / "topics/b/part-0.json.snappy").write_bytes(b"blocks")
    with App.open(config) as app:
        (waiting,) = app.add_tables()
        assert waiting.waits == "only Spark can unpack its files; write the table below `tables:`"
        assert app.settings.names == ()
