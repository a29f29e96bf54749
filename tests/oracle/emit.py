"""What connectors send: the events of a `Source`, transaction by transaction, as records of each envelope.

An event is a line of `Source` as `model.line` writes it: op, key, position `[n]`, values, missing, from. The payload columns are `id` (and `part`),
`a` (an integer) and `b`, `c` (texts, the only ones that may be missing). Each function takes the key's names and the events of one transaction.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

Event = Mapping[str, Any]
Record = dict[str, Any]
Emit = Callable[[Sequence[str], Sequence[Event]], Iterator[Record]]

PLACEHOLDER = "__debezium_unavailable_value"
TYPES = {"id": "integer", "part": "text", "a": "integer", "b": "text", "c": "text"}
"""PostgreSQL's types of the columns."""


def told(names: Sequence[str], event: Event) -> Record:
    """The columns an event tells."""
    return {**dict(zip(names, event["key"])), **event.get("values", {})}


def old(names: Sequence[str], event: Event) -> Record:
    """The key the row had."""
    return dict(zip(names, event.get("from") or event["key"]))


def _whole(names: Sequence[str], event: Event) -> Record:
    """A whole row, as a connector that sends whole rows has it: null is a value, and what it did not get is the placeholder."""
    return {**dict.fromkeys(("a", "b", "c")), **told(names, event), **dict.fromkeys(event.get("missing", ()), PLACEHOLDER)}


def row_of(names: Sequence[str], event: Event) -> Record:
    """The row that a connector sends for an event: a whole one, and of a delete its key."""
    return _whole(names, event) if event["op"] in "cur" else old(names, event)


def _lsn(event: Event, commit: int) -> int:
    """Where a change lies in the log: transactions that ran beside each other interleave there, whatever the order of their commits."""
    return int(event["position"][0]) + 60 * (commit // 10 % 3)


def _moves(event: Event) -> bool:
    return event["op"] in "cu" and bool(event.get("from")) and list(event["from"]) != list(event["key"])


def wal2json_1(names: Sequence[str], transaction: Sequence[Event]) -> Iterator[Record]:
    """A document a transaction. A truncate is an empty one."""
    changes = []
    for event in transaction:
        if event["op"] == "t":
            continue
        change: Record = {"kind": {"c": "insert", "u": "update", "d": "delete"}[event["op"]], "schema": "public", "table": "t"}
        if event["op"] != "d":
            new = told(names, event)
            change |= {"columnnames": [*new], "columntypes": [TYPES[name] for name in new], "columnvalues": [*new.values()]}
        if event["op"] != "c":
            key = old(names, event)
            change["oldkeys"] = {"keynames": [*key], "keytypes": [TYPES[name] for name in key], "keyvalues": [*key.values()]}
        changes.append(change)
    commit = transaction[-1]["position"][0]
    yield {"xid": commit, "nextlsn": f"0/{commit:X}", "timestamp": "2024-03-05 10:00:00+00", "change": changes}


def wal2json_2(names: Sequence[str], transaction: Sequence[Event]) -> Iterator[Record]:
    """BEGIN, a document a change, COMMIT."""
    commit = transaction[-1]["position"][0]
    time = f"2024-03-05 {10 + commit // 3600:02}:{commit // 60 % 60:02}:{commit % 60:02}.5+00"
    yield {"action": "B", "xid": commit, "timestamp": time, "lsn": f"0/{commit:X}", "nextlsn": f"0/{commit + 1:X}"}
    for event in transaction:
        out = {"action": {"c": "I", "u": "U", "d": "D", "t": "T"}[event["op"]], "xid": commit, "timestamp": time}
        out |= {"lsn": f"0/{_lsn(event, commit):X}", "schema": "public", "table": "t"}
        pairs = {"columns": told(names, event) if event["op"] in "cu" else None, "identity": old(names, event) if event["op"] in "ud" else None}
        out |= {part: [{"name": n, "type": TYPES[n], "value": v} for n, v in row.items()] for part, row in pairs.items() if row is not None}
        yield out
    yield {"action": "C", "xid": commit, "timestamp": time, "lsn": f"0/{commit:X}", "nextlsn": f"0/{commit + 1:X}"}


def change_event(names: Sequence[str], transaction: Sequence[Event]) -> Iterator[Record]:
    """Values as text, old keys in another order."""
    for event in transaction:
        new = told(names, event) if event["op"] in "cu" else {}
        key = old(names, event) if event["op"] == "d" or event.get("from") else {}
        yield {
            "changeType": {"c": "insert", "u": "update", "d": "delete", "t": "truncate"}[event["op"]],
            "timestamp": event["position"][0],
            "columnNames": [*new],
            "columnValues": [None if value is None else str(value) for value in new.values()],
            "oldKeyNames": [name.upper() for name in reversed(key)],
            "oldKeyValues": [str(key[name]) for name in reversed(key)],
        }


def debezium(names: Sequence[str], transaction: Sequence[Event]) -> Iterator[Record]:
    """PostgreSQL's envelope. A changed key is a delete and a create of one LSN; a delete's other columns are the zeros of the default identity."""
    commit, order = transaction[-1]["position"][0], 0
    for event in transaction:
        lsn = _lsn(event, commit)
        images: list[tuple[str, Record | None, Record | None]] = [(event["op"], None, _whole(names, event) if event["op"] in "cur" else None)]
        gone = {"a": 0, "b": None, "c": None}
        if _moves(event):
            images = [("d", {**old(names, event), **gone}, None), ("c", None, _whole(names, event))]
        elif event["op"] == "d":
            images = [("d", {**old(names, event), **gone}, None)]
        for op, before, after in images:
            order += 1
            source = {"connector": "postgresql", "schema": "public", "table": "t", "txId": commit, "lsn": lsn, "ts_ms": 1_700_000_000_000 + commit}
            yield {
                "before": before,
                "after": after,
                "source": {**source, "sequence": json.dumps([str(commit - 1), str(lsn)])},
                "op": op,
                "ts_ms": 1_800_000_000_000,
                "transaction": {"id": f"{commit}:{lsn}", "total_order": order},
            }


def flat(names: Sequence[str], transaction: Sequence[Event], truncates: bool = False) -> Iterator[Record]:
    """The same without envelope (ExtractNewRecordState, delete.handling rewrite): the order inside an LSN is lost, and so are truncates, unless a
    transformation of the user's lets `truncates` through.
    """
    for change in debezium(names, transaction):
        row, source = change["after"] or change["before"], change["source"]
        if row is None and truncates:
            row = dict.fromkeys((*names, "a", "b", "c"))
        if row is not None:
            meta = {"__op": change["op"], "__deleted": str(change["op"] == "d").lower(), "__lsn": source["lsn"], "__source_txId": source["txId"]}
            yield {**row, **meta, "__source_sequence": source["sequence"], "__source_ts_ms": source["ts_ms"]}


def flat_of_mysql(names: Sequence[str], transaction: Sequence[Event], truncates: bool = False) -> Iterator[Record]:
    """The same rows with MySQL's place in the binlog, whose file number grows while the position in the file begins anew."""
    for row in flat(names, transaction, truncates):
        commit = row["__source_txId"]
        place = {"__source_file": f"bin.{1 + commit // 1000:06}", "__source_pos": commit % 1000, "__source_row": 0}
        yield {**{name: value for name, value in row.items() if name not in ("__lsn", "__source_txId", "__source_sequence")}, **place}


def flat_at(names: Sequence[str], transaction: Sequence[Event]) -> Iterator[Record]:
    """Hand-made rows whose order is a time in text: with and without fraction, in several zones and spellings."""
    for event in transaction:
        at = spelled(int(event["position"][0]))
        if _moves(event):
            yield {**old(names, event), "op": "d", "at": at}
        yield {**row_of(names, event), "op": event["op"], "at": at}


def flat_marked(names: Sequence[str], transaction: Sequence[Event]) -> Iterator[Record]:
    """Rows without operation: a delete is a whole row, with values that nobody may see, and a mark in the column `gone` (`delete_when`)."""
    for event in transaction:
        at = spelled(int(event["position"][0]))
        ghost = {"a": 7, "b": "ghost", "c": "ghost", "gone": "yes", "at": at}
        if _moves(event) or event["op"] == "d":
            yield {**old(names, event), **ghost}
        if event["op"] != "d":
            yield {**_whole(names, event), "gone": None, "at": at}


def spelled(number: int) -> str:
    """A time in text: one that grows with the number, as text it may not."""
    moment, how = datetime(2024, 3, 5, 10) + timedelta(milliseconds=50 * number), number // 10 % 3
    text = (moment + timedelta(hours=2 if how == 1 else 0)).isoformat(" " if how == 2 else "T")
    return (text.rstrip("0") if "." in text else text) + ("Z", "+02:00", "")[how]


def of_topic(names: Sequence[str], transaction: Sequence[Event]) -> Iterator[Record]:
    """Kafka records of plain rows: two partitions, whose offsets are far apart."""
    for event in transaction:
        partition = event["key"][0] % 2
        row = {**dict.fromkeys(("a", "b", "c")), **told(names, event), "op": event["op"]}
        offset = event["position"][0] + (1 - partition) * 1_000_000
        yield {"topic": "t", "partition": partition, "offset": offset, "key": None, "value": json.dumps(row)}


def dms(names: Sequence[str], transaction: Sequence[Event]) -> Iterator[Record]:
    """Whole rows with the change's sequence, and a before image of the key. TRUNCATE deletes files and is no event."""
    for event in transaction:
        if event["op"] == "t":
            continue
        row = {**dict.fromkeys(("a", "b", "c")), **told(names, event)}
        before = {f"BI_{name}": value if event["op"] == "u" else None for name, value in old(names, event).items()}
        yield {"Op": {"c": "I", "u": "U", "d": "D"}[event["op"]], **row, **before, "AR_H_CHANGE_SEQ": f"20240305{event['position'][0]:027}"}


def without_rows(record: Record) -> list[Record | None]:
    """A record and what a Debezium topic holds beside it: tombstones, heartbeats, transaction markers, logical messages."""
    marker = {"status": "BEGIN", "id": "1:1", "event_count": None, "data_collections": None, "ts_ms": 1}
    message = {"op": "m", "ts_ms": 1, "source": record["source"], "message": {"prefix": "p", "content": "aGk="}}
    return [record, None, {"ts_ms": 1_700_000_000_000}, marker, message]
