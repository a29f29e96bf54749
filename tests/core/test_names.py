"""Stored names: the rules as a table, and that no set of names, however hostile, gives two columns of one name."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.core.catalog import history_views, views
from compactor.core.model import names, types
from compactor.core.model.errors import Refused
from compactor.core.model.schema import HISTORY
from compactor.core.schema.evolution import evolve
from compactor.core.schema.writer import WriterField, WriterSchema
from tests.oracle.lake import table
from tests.oracle.sizes import sized

HOSTILE = st.text(max_size=12) | st.sampled_from(
    ["a", "A", "a_2", "a_2_2", "ı", "i", "İ", "ſ", "s", "K", "k", "ß", "SS", "é", "e\u0301", "`", "``", "a`b", "'; drop table x; --", "\0", "\ud800", "_op", "segment", "1", "x" * 300]
)  # fmt: skip


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("id", "id"),
        ("userId", "userid"),
        ("a.b", "a_b"),
        ("Weird-Col name", "weird_col_name"),
        ("größe", "größe"),
        ("日本語", "日本語"),
        ("हिन्दी", "हिन्दी"),
        ("Ａｂ", "ab"),
        ("order", "order"),
        ("2nd", "_2nd"),
        ("_x", "_x"),
        ("", "_"),
        ("€", "_"),
        ("a\nb", "a_b"),
        ("`; drop table student; --", "___drop_table_student____"),
        ("\ud800", "_"),
        ("X" * 128, "x" * 128),
        ("X" * 129, "x" * 115 + "_184650fc"),
    ],
)
def test_a_name_is_stored_as(source: str, expected: str) -> None:
    """Case, blanks, dots, dashes, leading digits, length; letters of every script stay."""
    assert names.stored_name(source) == expected


@given(source=HOSTILE)
def test_a_stored_name_is_stored_as_itself(source: str) -> None:
    """The rules settle: nothing changes when they are applied again, so a table can be the source of another."""
    for rule in (names.stored_name, names.member_name):
        name = rule(source)
        assert rule(name) == name
        assert 0 < len(name) <= names.CHARS_MAX
        assert not set(name) & set(" .,;:`'\"\\<>()\n\0")


@given(source=HOSTILE)
def test_a_members_name_needs_no_quotes_in_a_type_text(source: str) -> None:
    """Hive's type texts have none."""
    kind = types.stored_names(("struct", ((source, ("int",)),)))
    assert types.parse(types.text(kind)) == kind
    assert "`" not in types.text(kind)


@sized(300)
@given(sources=st.lists(HOSTILE, min_size=1, max_size=8, unique=True), retyped=st.sets(st.integers(0, 7)))
def test_no_two_columns_of_a_table_share_a_name(sources: list[str], retyped: set[int]) -> None:
    """Stored names and the view's names are distinct for engines that compare them by upper case, whatever the source calls its columns."""

    def writer(number: int, chosen: dict[str, str]) -> WriterSchema:
        fields = tuple(WriterField(name, types.parse(kind), types.parse(kind)) for name, kind in chosen.items())
        return WriterSchema(f"w{number}", fields, (number,), (number,))

    keyed = {"id of rows": "bigint"}
    first = writer(1, {**keyed, **dict.fromkeys(sources, "int")})
    gone = writer(2, keyed)
    again = writer(3, {**keyed, **{name: "array<int>" for at, name in enumerate(sources) if at in retyped}})
    schema = evolve(None, [first, gone, again], ["id of rows"], 1, "t").schema
    for shown in (list(schema.names), [schema.view_name(field) for field in schema.payload]):
        assert len({name.upper().lower() for name in shown}) == len(shown), shown


def test_a_view_name_does_not_change_when_columns_are_added() -> None:
    """Names are given out in order."""
    sources = ["A", "a", "a_2", "a.2", "A_2"]
    fields = tuple(WriterField(name, ("int",), ("int",)) for name in sources)
    before: list[str] = []
    for count in range(1, len(sources) + 1):
        schema = evolve(None, [WriterSchema("w", fields[:count])], ["A"], 1, "t").schema
        shown = [schema.view_name(field) for field in schema.payload]
        assert shown[: len(before)] == before
        before = shown
    assert before == ["a", "a_2", "a_2_2", "a_2_3", "a_2_4"]


@pytest.mark.slow
def test_two_thousand_columns_are_named_in_seconds() -> None:
    """A cube of their number would be hours. Half of the names differ from another one in case only."""
    fields = tuple(WriterField(name, ("int",), ("int",)) for number in range(1000) for name in (f"Column {number}", f"column {number}"))
    began = time.process_time()
    schema = evolve(None, [WriterSchema("w1", fields, (1,), (1,))], ["Column 0"], 1, "t").schema
    schema = evolve(schema, [WriterSchema("w2", fields, (2,), (2,))], ["Column 0"], 2, "t").schema
    shown = [schema.view_name(field) for field in schema.payload]
    assert shown[:2] == ["column_0", "column_0_2"]
    assert len({*shown}) == 2000
    assert time.process_time() - began < 60


@given(text=st.text() | st.sampled_from(["line\none", "\0", "\ud800x", "\u2028", "'; --"]))
def test_a_comment_is_one_line_of_visible_characters(text: str) -> None:
    """Metastores on PostgreSQL refuse NUL, clients refuse halves of surrogate pairs."""
    one_line = names.comment(text)
    assert one_line == names.comment(one_line)
    assert one_line.encode("utf-8").decode() == one_line
    assert one_line == one_line.strip()
    assert not any(char < " " for char in one_line)


def test_a_column_with_a_name_of_the_feed_or_the_history_is_shown_as_it_is_stored() -> None:
    """They show theirs beside it. `_deleted` is a column of ours under `delete: soft` alone, which refuses the source's."""
    fields = ("_change_type", "__start_us", "_deleted", "segment")
    columns = tuple(WriterField(name, ("string",), ("string",)) for name in ("id", *fields))
    schema = evolve(None, [WriterSchema("w", columns)], ["id"], 1, "t").schema
    shown = [schema.view_name(schema.field(f"{name}_2")) for name in fields]
    assert ["_change_type_2", "__start_us_2", "_deleted", "segment"] == shown
    views.check_names(table(), schema)
    with pytest.raises(Refused, match="the view has a column _deleted, and so has the source"):
        views.check_names(table(delete="soft"), schema)


def test_the_names_that_the_history_shows_are_reserved() -> None:
    """They are listed where a schema can see them, and where the view is written."""
    assert {*HISTORY} == {name for name, *_ in history_views._SHOWN}
