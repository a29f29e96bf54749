"""Repair without a server: which tables can be repaired, the place of a repair in the order, and the lines of its file."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from compactor.core.model.files import FileInfo
from compactor.core.model.position import latest
from compactor.core.model.schema import Field, Schema
from compactor.core.model.snapshot import Snapshot
from compactor.core.planning.landing import discover
from compactor.core.reconcile import repair
from compactor.core.reconcile.canonical import Columns, Pair
from compactor.core.reconcile.dialects import MYSQL, POSTGRES, SPARK, Dialect, mysql_form, postgres_form
from compactor.core.reconcile.side import Part, Row, Side
from compactor.core.sources import increment
from tests.oracle.lake import table

BIG = "bigint"


def snapshot(order: tuple[tuple[str, str], ...], **more: Any) -> Snapshot:
    """A version with this order."""
    commit = {"table": "t", "uuid": "u", "version": 3, "parent": 2, "writer": "w", "run": "", "time": "2026-11-20T00:00:00Z", "operation": "commit"}
    schema = Schema((Field("id", "id", "int"),), ("id",))
    return Snapshot(**commit, schema=schema, order=order, base_id="b", segments=(), delta=None, **more)  # type: ignore[arg-type]


LOG = (("commit_lsn", BIG), ("lsn", BIG), ("total_order", BIG))
BINLOG = (("file_number", BIG), ("pos", BIG), ("row", BIG))

PLACES = {
    "PostgreSQL": (LOG, (0, 100, 160, None, "f", 0, 7), {"commit_lsn": "100", "lsn": "160", "total_order": "1"}),
    "PostgreSQL with transactions": (LOG, (0, 100, 160, 4, "f", 0, 7), {"commit_lsn": "100", "lsn": "160", "total_order": "5"}),
    "MySQL": (BINLOG, (0, 3, 900, 2, "f", 0, 7), {"file_number": "3", "pos": "900", "row": "3"}),
    "text": ((("dms.change_seq", "string"),), (0, "20261120000001", "f", 0, 7), {"dms.change_seq": "202611200000010"}),
    "nothing ingested with a position": (LOG, None, {"commit_lsn": None, "lsn": None, "total_order": "1"}),
}


@pytest.mark.parametrize("case", PLACES)
def test_a_repair_lies_above_everything_ingested_and_below_what_comes(case: str) -> None:
    """Also above rows of the same place in the order whose files have later names."""
    order, position, expected = PLACES[case]
    made = snapshot(order, position=position)
    assert repair.position_above(made) == expected
    if position is not None:
        kinds = [int if kind == BIG else str for _, kind in order]
        place = (0, *(None if expected[name] is None else kind(expected[name]) for kind, (name, _) in zip(kinds, order)), "a", 0, 0)
        following = (0, *position[1 : len(order)], *[10_000 if order[-1][1] == BIG else "20261120000002"], "a", 0, 0)
        assert latest([position, place, following]) == following
        assert latest([position, place]) == place


def test_a_repair_lies_above_a_truncate() -> None:
    """A truncate is no row, but it ends rows below it."""
    made = snapshot(LOG, position=(0, 100, 160, None, "f", 0, 7), truncated_to=(0, 200, 260, None, "f", 0, 8))
    assert repair.position_above(made)["commit_lsn"] == "200"


REFUSALS = {
    "in the order of the log": (LOG, {}, {}, ""),
    "full loads": ((("full_load.hour", "string"),), {"envelope": "full-load"}, {}, "the next full load"),
    "offsets": ((("offset", BIG),), {}, {}, "does not compare the changes of different keys"),
    "a column of the row": ((("seq", BIG),), {}, {}, "does not compare the changes of different keys"),
    "another type": ((("source.ts_us", "decimal(20,0)"),), {}, {}, "does not compare the changes of different keys"),
    "a new epoch without rows": (LOG, {"epoch": 1}, {}, "`epoch` is 1, and nothing of it"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_table_without_a_place_for_read_rows_is_refused(case: str) -> None:
    """With the reason."""
    order, settings, more, expected = REFUSALS[case]
    spec = dataclasses.replace(table(), **settings)
    problem = repair.refusal(spec, snapshot(order, **more))
    assert expected in problem
    assert bool(problem) == bool(expected)


def pair(form: str, kind: str = "string") -> Pair:
    """A column of a form."""
    return Pair("x", kind, "X", form, form, False)


def test_a_file_has_a_line_for_each_key() -> None:
    """A key that the source does not have is a delete, which has the key only. Nulls stay null."""
    key = Pair("id", "int", "ID", "integer", "integer", True)
    columns = Columns((key, pair("text")), (("tags", "text[] has no canonical form"),))
    rows = {("1",): (Row("", "", ("1", "a\u2028b")),), ("3",): (Row("", "", ("3", None)),)}
    lines = [*repair.lines(columns, [("1",), ("2",), ("3",)], rows, {}, {"lsn": "7"}, 5, "wal2json")]
    described = {"types": ["int", "string"], "forms": ["integer", "text"]}
    assert [json.loads(line) for line in lines] == [
        {"op": "u", "position": {"lsn": "7"}, "time": 5, "names": ["ID", "X"], **described, "values": ["1", "a\u2028b"], "own": [None, None]},
        {"op": "d", "position": {"lsn": "7"}, "time": 5, "names": ["ID"], "types": ["int"], "forms": ["integer"], "values": ["2"], "own": [None]},
        {"op": "u", "position": {"lsn": "7"}, "time": 5, "names": ["ID", "X"], **described, "values": ["3", None], "own": [None, None]},
    ]


CODE = dataclasses.replace(pair("padded"), source_type="character(5)", key=True)
TEXTS = (CODE, pair("number"), pair("time"), pair("moment"), pair("number", "decimal(9,2)"))
"""The canonical form drops the blanks of the key and zeros of the others."""
SENT = Row("a", "", ("ab", "1.5", "12:00:00.5", "0", "7.5"), ("ab   ", "1.50", None, None, None))
SPELLED = Row("b", "", ("ab", "1.5", "12:00:00.25", "0", "7.25"), ("ab ", "1.500", "12:00:00.250000", "1970-01-01 00:00:00+00", None))
OTHER = Row("b", "", ("ab", "2", None, None, "7.25"), ("ab", "2", None, None, None))

OWN = {
    "a row that the lake lacks is as its stream sends it": ([SENT], [], "wal2json", [("u", ["ab   ", "1.50", None, None, None])]),
    "Debezium has six digits of a second": ([SENT], [], "debezium", [("u", ["ab   ", "1.50", "12:00:00.500000", None, None])]),
    "equal values stay as they are": ([SENT], [SPELLED], "wal2json", [("u", ["ab ", "1.500", None, "1970-01-01 00:00:00+00", None])]),
    "a key in two texts": ([SENT], [SPELLED, OTHER], "wal2json", [("u", ["ab ", "1.500", None, "1970-01-01 00:00:00+00", None]), ("d", [None])]),
    "a key in two texts, one of them the source's": (
        [SENT], [OTHER, dataclasses.replace(OTHER, own=("ab   ", *OTHER.own[1:]))], "wal2json", [("u", ["ab   ", "1.50", None, None, None]), ("d", [None])]
    ),
    "a delete has the key that is stored": ([], [SPELLED], "wal2json", [("d", ["ab "])]),
    "nothing anywhere": ([], [], "wal2json", [("d", [None])]),
}  # fmt: skip


@pytest.mark.parametrize("case", OWN)
def test_a_repair_stores_the_texts_of_the_stream_or_of_the_lake_and_no_canonical_ones(case: str) -> None:
    """The canonical key would be another row, a delete of it nothing, and the other values would change their text."""
    there, here, envelope, expected = OWN[case]
    rows, lake = ({("ab",): tuple(each)} if each else {} for each in (there, here))
    made = [json.loads(line) for line in repair.lines(Columns(TEXTS, ()), [("ab",)], rows, lake, {}, 5, envelope)]
    assert [(line["op"], line["own"]) for line in made] == expected
    assert all(line["values"] == (["ab", "1.5", "12:00:00.5", "0", "7.5"] if line["op"] == "u" else ["ab"]) for line in made)


OWN_TEXTS = {
    POSTGRES: {"character(5)": 'textin(bpcharout("x"))', "numeric": '"x"::text', "uuid": None, "text": None},
    MYSQL: {"char(5)": None, "decimal(9,2)": "cast(`x` + 0 as char)", "decimal(9,0)": None, "time(6)": "cast(`x` as char)", "time": None},
}


@pytest.mark.parametrize(("sql", "forms"), [(POSTGRES, postgres_form), (MYSQL, mysql_form)], ids=["PostgreSQL", "MySQL"])
def test_a_source_has_its_own_texts_where_the_canonical_form_drops_characters(sql: Dialect, forms: Any) -> None:
    """And where the lake keeps text: a decimal has no other text."""
    columns = {kind: Pair("x", "string", "x", kind, forms(kind), False) for kind in OWN_TEXTS[sql]}
    assert {kind: sql.own_text(each) for kind, each in columns.items()} == OWN_TEXTS[sql]
    assert {sql.own_text(dataclasses.replace(each, type="decimal(9,2)")) for each in columns.values()} == {None}
    assert SPARK.own_text(columns[next(iter(columns))]) == "`x`"


def test_own_texts_are_read_with_a_row_and_not_with_digests() -> None:
    """Beside the canonical ones, whose digest is compared."""
    statements: list[str] = []

    def query(text: str) -> list[tuple[str | None, ...]]:
        statements.append(text)
        return [("d", "m", "ab", "1.5", "t", "0", "7", "ab   ", "1.50")]

    side = Side(POSTGRES, "t", Columns(TEXTS, ()), query)
    assert side.rows([("ab",)]) == {("ab",): (Row("d", "m", ("ab", "1.5", "t", "0", "7"), ("ab   ", "1.50", None, None, None)),)}
    side.digests([Part()])
    assert [" AS o0" in text for text in statements] == [True, False]


def test_a_repair_is_an_input_of_its_own_table_and_no_other_hidden_file_is() -> None:
    """Engines that read the folders, other tables of a shared folder, and everybody who looks for data there, leave it out."""
    name, others = increment.repair_name("t", "0a1b2c3d"), increment.repair_name("other", "0a1b2c3d")
    files = [FileInfo(f"increment_2026112014/{each}", 10, "e", 0.0) for each in (name, others, "_SUCCESS", "_repair-t-x.tmp")]
    assert [item.path for item in discover(table(), files, frozenset(), 100.0).new] == [f"increment_2026112014/{name}"]
    assert increment.ignored(f"increment_2026112014/{name}")


def test_a_signal_names_the_rows() -> None:
    """As Debezium's documentation has it."""
    assert json.loads(repair.signal_data("public.t", "\"id\" IN ('1')")) == {
        "data-collections": ["public.t"],
        "type": "incremental",
        "additional-conditions": [{"data-collection": "public.t", "filter": "\"id\" IN ('1')"}],
    }
