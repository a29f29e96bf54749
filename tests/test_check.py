"""`compactor plan`: a configuration that contradicts the files is reported before the first run, without Spark."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from compactor.cli import main as cli

DEBEZIUM = json.dumps({"op": "c", "before": None, "after": {"id": 1, "name": "x"}, "source": {"schema": "public", "table": "orders"}})
_ROWS = [
    {"id": 1700000000000 + at, "balance": packed, "birth_date": 20782 - at, "created": 1795611600123 + at, "state": "open", "count": 9000, "ok": True}
    for at, packed in enumerate(["BH4=", "AYag", None])
]
ENCODED = "".join(json.dumps({"op": "r", "before": None, "after": row, "source": {"schema": "public", "table": "orders"}}) + "\n" for row in _ROWS)


def inserted(changes: Iterable[tuple[str, int, object]]) -> str:
    """Return changes of Debezium: (operation, id, value of the column is_vip)."""
    return "".join(json.dumps({"op": op, ("before" if op == "d" else "after"): {"id": id_, "is_vip": vip}}) + "\n" for op, id_, vip in changes)


FLAT = json.dumps({"id": 1, "name": "x", "updated_at": 5})
CSV = "id;name;updated_at\n1;x;5\n"
QLIK = "header__change_seq,header__change_oper,id,name\n" + "".join(
    f"{at},{code},{id_},x\n" for at, (code, id_) in enumerate([*[("I", number) for number in range(1, 9)], ("B", 1), ("U", 1), ("D", 2), ("I", 2)], 1)
)
TOMBSTONE = "".join(
    json.dumps({"topic": "t", "partition": 0, "offset": at, "key": {"id": 1}, "value": value}) + "\n"
    for at, value in enumerate([{"id": 1, "__op": "c", "__lsn": 5}, "null"])
)
STREAM = "key: [id], increments: o/in"
GOOD = "key: [id], order_by: [updated_at], increments: people/in"

CASES = {
    "all well": (GOOD, "people/in/a.json", FLAT, None),
    "all well, as far as shown: only Spark unpacks it": (GOOD, "people/in/a.json.snappy", "blocks", None),
    "all well, Debezium": ("key: [id], envelope: debezium, increments: orders/in", "orders/in/a.json", DEBEZIUM, None),
    "a mistyped folder": (
        "key: [id], increments: poeple/in",
        "people/in/a.json",
        FLAT,
        "no file has ever landed below .*/poeple/in; did you mean .*/people",
    ),
    "a mistyped last folder": ("key: [id], increments: people/inn", "people/in/a.json", FLAT, "people/inn; did you mean .*/people/in"),
    "another pattern": ("key: [id], increments: people/in/%Y%m%d", "people/in/20-11-2026/a.json", FLAT, "lies in a folder that fits '%Y%m%d'"),
    "a mistyped key": ("key: [idd], order_by: [updated_at], increments: p/in", "p/in/a.json", FLAT, "no sampled file has idd; .*; did you mean id"),
    "a mistyped order": (
        "key: [id], order_by: [changed], increments: p/in",
        "p/in/a.json",
        FLAT,
        "no sampled file has changed; the columns are id, name",
    ),
    "no order": ("key: [id], increments: people/in", "people/in/a.json", FLAT, "`order_by` is not set"),
    "another envelope": (GOOD, "people/in/a.json", DEBEZIUM, "look like `envelope: debezium`, expected flat"),
    "the other way round": ("key: [id], envelope: debezium, increments: p/in", "p/in/a.json", FLAT, "look like `envelope: flat`, expected debezium"),
    "DMS without its envelope": (
        "key: [id], increments: p/in",
        "p/in/LOAD00000001.csv",
        "I,1,x\nI,2,y\n",
        "look like `envelope: dms`, expected flat",
    ),
    "an operation of another name": (
        "key: [ID], order_by: [pos], increments: p/in",
        "p/in/a.json",
        '{"ID": 1, "pos": "1", "op_type": "I"}\n{"ID": 1, "pos": "2", "op_type": "D"}\n',
        "the values of op_type look like operations; set `op: op_type`",
    ),
    "the operation is named": (
        "key: [ID], order_by: [pos], op: op_type, increments: p/in",
        "p/in/a.json",
        '{"ID": 1, "pos": "1", "op_type": "I"}\n{"ID": 1, "pos": "2", "op_type": "D"}\n',
        None,
    ),
    "an operation among a connector's columns": (
        "key: [id], increments: p/in",
        "p/in/a.json",
        '{"id": 1, "__lsn": 1, "__operation": "c"}\n{"id": 1, "__lsn": 2, "__operation": "d"}\n',
        "the values of __operation look like operations; set `op: __operation`, or",
    ),
    "Delta's change feed": (
        "key: [id], order_by: [at], increments: p/in",
        "p/in/a.json",
        "".join(json.dumps({"id": 1, "at": at, "_change_type": code}) + "\n" for at, code in enumerate(["insert", "update_preimage", "delete"])),
        "set `op: _change_type` and `op_map: {update_preimage: ignore}`",
    ),
    "an operation that a condition names": (
        "key: [ID], order_by: [pos], delete_when: op_type = 'D', increments: p/in",
        "p/in/a.json",
        '{"ID": 1, "pos": "1", "op_type": "I"}\n{"ID": 1, "pos": "2", "op_type": "D"}\n',
        None,
    ),
    "a mark of deletes that is empty text": (
        "key: [id], order_by: [at], delete_when: removed_at IS NOT NULL, increments: p/in",
        "p/in/a.csv",
        '"id","at","removed_at"\n"1","1",""\n"2","2","2026-01-01"\n',
        'removed_at has `""`, which is text and no null',
    ),
    "a mark of deletes with a type": (
        "key: [id], order_by: [at], types: {removed_at: date}, delete_when: removed_at IS NOT NULL, increments: p/in",
        "p/in/a.csv",
        '"id","at","removed_at"\n"1","1",""\n"2","2","2026-01-01"\n',
        None,
    ),
    "a mark of deletes that is compared with empty text, too": (
        "key: [id], order_by: [at], delete_when: \"removed_at IS NOT NULL AND removed_at <> ''\", increments: p/in",
        "p/in/a.csv",
        '"id","at","removed_at"\n"1","1",""\n"2","2","2026-01-01"\n',
        None,
    ),
    "permissions, which are no operations": (
        "key: [id], order_by: [at], increments: p/in",
        "p/in/a.json",
        "".join(json.dumps({"id": at, "at": at, "permission": code}) + "\n" for at, code in enumerate(["create", "read", "update", "delete"])),
        None,
    ),
    "a mark of deletes that is null": (
        "key: [id], order_by: [at], delete_when: removed_at IS NOT NULL, increments: p/in",
        "p/in/a.csv",
        '"id","at","removed_at"\n"1","1",\n"2","2","2026-01-01"\n',
        None,
    ),
    "GoldenGate's Avro rows as patches": (
        "key: [id], order_by: [at], patch_rows: true, increments: p/in",
        "p/in/a.json",
        '{"id": 1, "at": 1, "n": null, "n_isMissing": true}\n',
        "n_isMissing says whether the record has one",
    ),
    "deletes without a row": (
        "key: [id], container: kafka, increments: p/in",
        "p/in/a.json",
        TOMBSTONE,
        "no row has the operation of a delete",
    ),
    "deletes without a row, by offset": (
        "key: [id], container: kafka, order_by: [offset], increments: p/in",
        "p/in/a.json",
        TOMBSTONE,
        None,
    ),
    "deletes without a row beside deletes": (
        "key: [id], container: kafka, increments: p/in",
        "p/in/a.json",
        TOMBSTONE + TOMBSTONE.replace('"__op": "c"', '"__op": "d"'),
        None,
    ),
    "events of an application": (
        "key: [id], order_by: [at], increments: p/in",
        "p/in/a.json",
        '{"id": 1, "at": 1, "event_type": "created"}\n{"id": 2, "at": 2, "event_type": "deleted"}\n',
        None,
    ),
    "an operation with images before updates": (
        "key: [id], order_by: [header__change_seq], increments: p/in",
        "p/in/a.csv",
        QLIK,
        "the values of header__change_oper look like operations; set `op: header__change_oper` and `op_map: {B: ignore}`",
    ),
    "that operation is named": (
        "key: [id], order_by: [header__change_seq], op: header__change_oper, op_map: {B: ignore}, increments: p/in",
        "p/in/a.csv",
        QLIK,
        None,
    ),
    "SQL Server's change tables": (
        "key: [id], order_by: ['__$start_lsn'], increments: p/in",
        "p/in/a.csv",
        "__$start_lsn,__$operation,id\n0x01,2,1\n0x02,1,1\n",
        'set `op: .*__.operation.*` and `op_map: {"1": d, "2": c, "3": ignore, "4": u}`',
    ),
    "grades are no operations": (
        "key: [id], order_by: [seq], increments: p/in",
        "p/in/a.json",
        '{"id": 1, "seq": 1, "grade": "C"}\n{"id": 2, "seq": 2, "grade": "D"}\n',
        None,
    ),
    "Maxwell": (
        "key: [type], order_by: [ts], increments: p/in",
        "p/in/a.json",
        '{"database": "shop", "table": "t", "type": "insert", "ts": 1, "xid": 2, "data": {"id": 1}}\n',
        "the records look like Maxwell's, which are not read",
    ),
    "Debezium's CloudEvents": (
        "key: [id], envelope: debezium, increments: p/in",
        "p/in/a.json",
        '{"id": "lsn:1", "specversion": "1.0", "iodebeziumop": "d", "data": {"before": {"id": 1}, "after": null}}\n',
        "the records look like CloudEventsConverter's, which are not read",
    ),
    "an unknown envelope with a member like the key": (
        "key: [id], envelope: debezium, increments: p/in",
        "p/in/a.json",
        '{"id": "e1", "kind": "d", "row": {"id": 1}}\n',
        "the records are not in `envelope: debezium`, and their own is unknown",
    ),
    "an unknown envelope around the key": (
        f"{GOOD}",
        "people/in/a.json",
        '{"type": "RECORD", "record": {"id": 1, "updated_at": 5}, "updated_at": 5}\n',
        "no sampled file has id; .*; record has it, so that the rows may be wrapped",
    ),
    "a member as the order": (f"{STREAM}, order_by: [meta.at]", "o/in/a.json", '{"id": 1, "meta": {"at": 5}}\n', "no sampled file has meta.at"),
    "an object as the order": (
        f"{STREAM}, order_by: [meta]",
        "o/in/a.json",
        '{"id": 1, "meta": {"at": 5}}\n',
        "meta has objects, which have no order",
    ),
    "a key that is not stored": (
        "key: [__id], order_by: [at], increments: p/in",
        "p/in/a.json",
        '{"__id": 1, "at": 5}\n',
        "__id is not stored; name it in `metadata_columns`",
    ),
    "another delimiter": (GOOD, "people/in/a.csv", CSV, "separated by ';', expected ','; set `csv: {delimiter: ';'}`"),
    "the configured delimiter, where another is more frequent": (
        GOOD + ", csv: {delimiter: '~', quote: ''}",
        "people/in/a.csv",
        "id~name~updated_at\n" + "".join(f'{number}~"a, b, c~5\n' for number in range(20)),
        None,
    ),
    "no header": (GOOD, "people/in/a.csv", "1,x,5\n2,y,6\n", "seem to have no header"),
    "no header, and no columns": (
        "key: [id], envelope: dms, increments: people/in",
        "people/in/LOAD00000001.csv",
        "1,x\n2,y\n",
        "no header, and nothing names their columns",
    ),
    "a column too few": (GOOD + ", csv: {columns: [id, updated_at]}", "people/in/a.csv", "1,x,5\n", "the rows have 3 values, expected 2"),
    "a protected column of no file": (
        GOOD + ", archive: move, columns: {nme: exclude}",
        "people/in/a.json",
        FLAT,
        "no sampled file has nme; .*; did you mean name.*protects nothing",
    ),
    "hashes without a secret": (GOOD + ", archive: move, columns: {name: hash}", "people/in/a.json", FLAT, "needs a secret"),
    "protected columns": (GOOD + ", archive: move, columns: {NAME: mask(4)}", "people/in/a.json", FLAT, None),
    "a type of no column": (GOOD + ", types: {birth: date}", "people/in/a.csv", CSV.replace(";", ","), "no sampled file has birth"),
    "values of another type": (
        GOOD + ", csv: {delimiter: ';'}, types: {name: int}",
        "people/in/a.csv",
        CSV,
        "a sampled value of name is 'x', expected int; correct",
    ),
    "values of their types": (
        GOOD + ", csv: {delimiter: ';'}, types: {id: bigint, updated_at: 'decimal(5,2)', name: boolean}",
        "people/in/a.csv",
        CSV,
        None,
    ),
    "a protected value of another type": (
        GOOD + ", csv: {delimiter: ';'}, types: {name: int}, archive: move, columns: {name: exclude}",
        "people/in/a.csv",
        CSV,
        "a sampled value of name is of another type, expected int",
    ),
    "one value of another type": (
        GOOD + ", types: {updated_at: int}",
        "people/in/a.json",
        FLAT + "\n" + FLAT + "\n" + FLAT.replace("5", '"?"'),
        None,
    ),
    "Debezium without schema": (
        "key: [id], envelope: debezium, increments: orders/in",
        "orders/in/a.json",
        ENCODED,
        r"balance \(BH4=\) looks like base64 of a decimal.* birth_date \(20782\), created \(1795611600123\) looks like days or times .*; "
        r'write `types: {balance: "decimal\(10,\?\)", birth_date: date_days, created: timestamp_millis}`',
    ),
    "old times without schema": (
        "key: [id], envelope: debezium, increments: o/in",
        "o/in/a.json",
        ENCODED.replace("1795611600123", "946684800000"),
        r"created \(946684800000\) looks like days or times .*, created: timestamp_millis}`",
    ),
    "Debezium without schema, and types": (
        "key: [id], envelope: debezium, increments: o/in, types: {balance: 'decimal(10,2)', birth_date: date_days, created: bigint}",
        "o/in/a.json",
        ENCODED,
        None,
    ),
    "a base64 decimal of more digits than its type": (
        "key: [id], envelope: debezium, increments: o/in, types: {balance: 'decimal(10,2)', birth_date: date_days, created: bigint}",
        "o/in/a.json",
        ENCODED.replace("BH4=", "AIAAAAAAAAAA").replace("AYag", "f/////////8="),
        r"a sampled value of balance is 'AIAAAAAAAAAA', expected decimal\(10,2\); correct `types:`",
    ),
    "Debezium with schema": (
        "key: [id], envelope: debezium, increments: o/in",
        "o/in/a.json",
        "".join(json.dumps({"schema": {"type": "struct"}, "payload": json.loads(line)}) + "\n" for line in ENCODED.splitlines()),
        None,
    ),
    "a key of few values": (
        "key: [is_vip], envelope: debezium, increments: p/in",
        "p/in/a.json",
        inserted(("r", at, at % 2 == 0) for at in range(200)),
        "is_vip has 2 values in 200 inserted rows; unique in the sample: id. Correct `key:`",
    ),
    "a key of few values, and a deleted row of each": (
        "key: [is_vip], envelope: debezium, increments: p/in",
        "p/in/a.json",
        inserted([*(("r", at, at % 2 == 0) for at in range(200)), ("d", 0, True), ("d", 1, False)]),
        "is_vip has 2 values in 198 inserted rows",
    ),
    "an array with an object a line": (GOOD, "people/in/a.json", f"[{FLAT},\n{FLAT}]\n", None),
    "an array of several objects in a line": (GOOD, "people/in/a.json", f"[{FLAT},{FLAT}]\n", "a line is a JSON array of several values"),
    "no suffix, and a format": (
        "key: [id], order_by: [seq], format: csv, csv: {columns: [id, seq]}, increments: p/in",
        "p/in/part-m-00000",
        "1,2\n2,3\n",
        None,
    ),
    "several objects a line": (GOOD, "people/in/a.json", FLAT + FLAT, None),
    "a file without content": (GOOD, "people/in/a.csv", "", None),
    "one row sent several times": (
        "key: [id], envelope: debezium, increments: p/in",
        "p/in/a.json",
        inserted([*(("c", at, at) for at in range(20)), *(("c", 3, 3) for _ in range(9)), ("r", 4, 40), ("d", 5, 5), ("c", 5, 50)]),
        None,
    ),
    "changes without operation": (
        "key: [sensor], order_by: [at], increments: p/in",
        "p/in/a.json",
        "".join(json.dumps({"sensor": at % 3, "at": at, "value": 1000 - at}) + "\n" for at in range(200)),
        None,
    ),
    "a key of few values, without operation": (
        "key: [is_vip], order_by: [at], increments: p/in",
        "p/in/a.csv",
        "id,is_vip,at\n" + "".join(f"{at},{at % 2},{at % 7}\n" for at in range(200)),
        "is_vip has 2 values in 200 inserted rows; unique in the sample: id",
    ),
    "base64 in hand-made rows": (GOOD, "people/in/a.json", FLAT.replace('"x"', '"BH4="'), r"name \(BH4=\) looks like base64"),
    "large numbers in hand-made rows": (GOOD, "people/in/a.json", FLAT.replace("5", "1795611600123"), None),
    "a file that is no data": (
        GOOD,
        "people/in/README.txt",
        FLAT,
        r"1 file \(README.txt\) has none of the suffixes .*; remove them, or set `format:`",
    ),
    "several source tables": (
        "key: [id], envelope: debezium, increments: o/in",
        "o/in/a.json",
        DEBEZIUM + "\n" + DEBEZIUM.replace("orders", "items"),
        r"of several source tables: public.orders, public.items. Set `source_table:`",
    ),
    "partitions of one source table": (
        "key: [id], envelope: debezium, increments: o/in, source_table: 'public.orders_*'",
        "o/in/a.json",
        DEBEZIUM.replace("orders", "orders_1") + "\n" + DEBEZIUM.replace("orders", "orders_2"),
        None,
    ),
    "another source table": (
        "key: [id], envelope: debezium, increments: o/in, source_table: public.order",
        "o/in/a.json",
        DEBEZIUM,
        "none of the tables in the sampled files: public.orders",
    ),
    "a table of flat rows without schema": (
        f"{STREAM}, source_table: public.users",
        "o/in/a.json",
        '{"id": 1, "__lsn": 1, "__table": "users"}',
        None,
    ),
    "a table of flat rows in another schema": (
        f"{STREAM}, source_table: a.users",
        "o/in/a.json",
        '{"id": 1, "__lsn": 1, "__source_schema": "b", "__source_table": "users"}',
        "none of the tables in the sampled files: b.users",
    ),
    "flat rows that name no table": (f"{STREAM}, source_table: a.users", "o/in/a.json", '{"id": 1, "__lsn": 1}', "do not name their table"),
    "a database of SQL Server": (
        "key: [id], envelope: debezium, increments: o/in, source_table: shop.public.orders",
        "o/in/a.json",
        DEBEZIUM.replace('"schema"', '"connector": "sqlserver", "db": "shop", "schema"'),
        None,
    ),
}


def checked(file: Path) -> tuple[int, list[dict[str, Any]]]:
    """Plan. Return the exit code and the checks of all tables."""
    code, plans = called(file, "plan")
    return code, [check for plan in plans for check in plan["checks"]]


def called(file: Path, *words: str) -> tuple[int, Any]:
    """Run a command. Return its exit code and its JSON."""
    done = CliRunner().invoke(cli.app, [*words, "--config", str(file), "--output", "json"])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, json.loads(done.stdout)


@pytest.mark.parametrize("case", CASES)
def test_a_contradiction_between_configuration_and_files_is_found(tmp_path: Path, case: str) -> None:
    """Named with the table, what was expected and what is there; without one every check passes."""
    settings, path, content, problem = CASES[case]
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(content)
    file = tmp_path / "compactor.yaml"
    file.write_text(f"warehouse: .\ntables:\n  t: {{{settings}}}\n")
    code, plans = called(file, "plan")
    failed = plans[0]["problems"]
    assert code == (1 if problem else 0)
    assert len(failed) == (1 if problem else 0)
    assert failed == [check["detail"] for check in plans[0]["checks"] if not check["ok"]]
    if problem is not None:
        assert re.search(problem, failed[0])


def test_check_is_another_name_of_plan(tmp_path: Path) -> None:
    """The same answer and exit code."""
    (tmp_path / "compactor.yaml").write_text("tables: {t: {key: [id], order_by: [at]}}")
    assert called(tmp_path / "compactor.yaml", "check") == called(tmp_path / "compactor.yaml", "plan")


def test_a_cut_file_is_named_and_the_files_beside_it_are_checked(tmp_path: Path) -> None:
    """The largest file of the folder is the one that cannot be read; the key is compared with the columns of the next one."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "cut.json.gz").write_bytes(gzip.compress(random.Random(1).randbytes(5000))[:4000])
    (tmp_path / "in" / "good.json").write_text(FLAT)
    file = tmp_path / "compactor.yaml"
    file.write_text("warehouse: .\ntables:\n  a: {key: [idd], order_by: [updated_at], increments: in}\n")
    code, checks = checked(file)
    failed = {check["name"]: check["detail"] for check in checks if not check["ok"]}
    assert code == 1
    assert re.match(r"cut.json.gz cannot be read \(", failed["records"])
    assert "did you mean id?" in failed["columns of `key`"]


def test_a_run_names_the_folder_in_which_nothing_has_landed(tmp_path: Path) -> None:
    """Without Spark, because there is nothing to do; with a similar folder, or because the only file is still too young."""
    (tmp_path / "people" / "in").mkdir(parents=True)
    (tmp_path / "people" / "in" / "a.json").write_text(FLAT)
    file = tmp_path / "compactor.yaml"
    table = "key: [id], order_by: [updated_at]"
    file.write_text(f"warehouse: .\ntables:\n  a: {{{table}, increments: people/inn}}\n  b: {{{table}, increments: people/in, settle: 1d}}\n")
    code, reports = called(file, "run")
    assert (code, [report["outcome"] for report in reports]) == (0, ["idle", "idle"])
    assert reports[0]["notes"] == [f"no file has ever landed below {tmp_path}/people/inn; did you mean {tmp_path}/people/in?"]
    assert reports[1]["notes"] == [f"no file below {tmp_path}/people/in is ready to be ingested"]


def test_the_versions_of_a_renamed_table_are_named(tmp_path: Path) -> None:
    """Not the folder of another table, however similar its name is."""
    for name in ("student", "studio"):
        (tmp_path / name / "_compactor" / "snapshots").mkdir(parents=True)
        (tmp_path / name / "_compactor" / "snapshots" / "latest").write_text("1")
    file = tmp_path / "compactor.yaml"
    configured = "key: [id], order_by: [seq]"
    file.write_text(f"warehouse: .\ntables:\n  studios: {{{configured}}}\n  student: {{{configured}}}\n  studio: {{{configured}}}\n")
    nothing = f"no file has ever landed below {tmp_path}/studios/incremental; "
    assert called(file, "run", "studios")[1][0]["notes"] == [nothing + "correct `increments:`, or wait for the first files."]
    file.write_text(f"warehouse: .\ntables:\n  pupil: {{{configured}}}\n  studio: {{{configured}}}\n")
    for notes in (called(file, "run", "pupil")[1][0]["notes"], called(file, "plan", "pupil")[1][0]["problems"]):
        assert notes == [
            f"no file has ever landed below {tmp_path}/pupil/incremental; {tmp_path}/student has the versions of a table that is not configured. If "
            "pupil is its new name: call it student again and set `view: pupil`. Otherwise correct `increments:`, or wait for the first files."
        ]


def test_two_tables_on_one_folder_are_reported_unless_each_names_its_source(tmp_path: Path) -> None:
    """Two tables of a stream share a folder; two tables that read all of it would hold the same rows."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text(DEBEZIUM + "\n" + DEBEZIUM.replace("orders", "items"))
    file = tmp_path / "compactor.yaml"
    table = "key: [id], envelope: debezium, increments: in"
    file.write_text(f"warehouse: .\ntables:\n  a: {{{table}}}\n  b: {{{table}}}\n")
    code, checks = checked(file)
    assert code == 1
    assert [check["detail"].split(";")[0] for check in checks if not check["ok"] and check["name"] == "landing folder of its own"] == [
        f"table b reads the same files ({tmp_path}/in)",
        f"table a reads the same files ({tmp_path}/in)",
    ]
    file.write_text(f"warehouse: .\ntables:\n  a: {{{table}, source_table: public.orders}}\n  b: {{{table}, source_table: items}}\n")
    assert checked(file)[0] == 0


MARKS = {
    "a flag": ('{"id": 1, "at": 1, "_fivetran_deleted": false}', 'may mark deleted rows; then set `delete_when: "_fivetran_deleted"`'),
    "a flag of CSV": ("id,at,isDeleted\n1,1,N\n2,1,Y\n", """set `delete_when: "isDeleted = 'Y'"`"""),
    "a number": ('{"id": 1, "at": 1, "_PEERDB_IS_DELETED": 0}', 'set `delete_when: "_PEERDB_IS_DELETED = 1"`'),
    "a time": ('{"id": 1, "at": 1, "_ab_cdc_deleted_at": null}', 'set `delete_when: "_ab_cdc_deleted_at IS NOT NULL"`'),
    "codes that an event may have": (
        '{"id": 1, "at": 1, "action": "created"}\n{"id": 1, "at": 2, "action": "removed"}',
        "set `op: action` and `op_map: {created: c, removed: d}`",
    ),
    "none": ('{"id": 1, "at": 1, "undeleted": 1, "deleted_by": "x"}', None),
}


@pytest.mark.parametrize("case", MARKS)
def test_a_mark_of_deleted_rows_is_mentioned(tmp_path: Path, case: str) -> None:
    """Without `delete_when` each deleted row stays. It may be a column of the row, so that it is no problem."""
    content, remark = MARKS[case]
    (tmp_path / "in").mkdir()
    (tmp_path / f"in/a.{'csv' if content.startswith('id,') else 'json'}").write_text(content + "\n")
    (tmp_path / "compactor.yaml").write_text("warehouse: .\ntables:\n  t: {key: [id], order_by: [at], increments: in}\n")
    code, checks = checked(tmp_path / "compactor.yaml")
    details = [check["detail"] for check in checks if check["name"] == "deleted rows"]
    assert (code, len(details)) == (0, int(remark is not None))
    assert all(str(remark) in detail for detail in details), details
    shown = CliRunner().invoke(cli.app, ["plan", "--config", str(tmp_path / "compactor.yaml")]).stdout
    assert ("deleted rows: " in shown) == (remark is not None)


def test_large_numbers_in_hand_made_rows_are_mentioned(tmp_path: Path) -> None:
    """They may be what they look like: the check passes, and shows the lines to write if they are times."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text(FLAT.replace("5", "1795611600123"))
    file = tmp_path / "compactor.yaml"
    file.write_text("warehouse: .\ntables:\n  a: {key: [id], order_by: [updated_at], increments: in}\n")
    code, checks = checked(file)
    (said,) = [check["detail"] for check in checks if check["name"] == "values without a schema"]
    assert code == 0
    assert said.endswith("write `types: {updated_at: timestamp_millis}`")
