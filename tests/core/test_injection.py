"""Nothing that a schema says becomes SQL: names, members, defaults and documentation, however hostile, stay names, texts and comments.

The second opinion is sqlglot's Spark and Hive parsers: a statement made with hostile names has the same tokens as one made with harmless ones.
"""

from __future__ import annotations

import re
from typing import Any

import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from sqlglot.tokens import TokenType

from compactor.core.catalog import landed, live, views
from compactor.core.catalog.ddl import quoted
from compactor.core.model import names, types
from compactor.core.model.files import Delta
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.schema.evolution import evolve
from compactor.core.schema.writer import WriterField, WriterSchema
from compactor.spark import sql
from tests.oracle.sizes import sized

HOSTILE = st.text(st.sampled_from("`'\"\\;-/*#() aZ\n\0é.,:<>"), min_size=1, max_size=12) | st.sampled_from(
    [
        "`; drop table student; --",
        "x` from y; --",
        "``",
        "'; drop table student; --",
        "\\'; drop table student; --",
        "\\",
        "a\\`b",
        "*/ or 1=1 /*",
        "--",
        "a` as string), (select `secret",
        "int, `x` string) comment 'oops",
        "${hiveconf:x}",
        "$(x)",
        "\u2028",
        "\u02bc",
        "＇ or 1=1",
    ]
)
"""What a producer may call its columns. (Unpaired surrogates reach no SQL: names and comments are cleaned of them.)"""


DEFAULTS = HOSTILE | st.integers() | st.booleans() | st.none()


def tokens(text: str, dialect: str) -> list[tuple[TokenType, str]]:
    """The statement's tokens; of names and literals only that they are there."""
    values = (TokenType.IDENTIFIER, TokenType.STRING)
    return [(token.token_type, "" if token.token_type in values else token.text.upper()) for token in sqlglot.tokenize(text, dialect=dialect)]


def snapshot(columns: list[str], default: Any) -> Snapshot:
    """A table of an id and these columns, which came in version 3 with that default and their name as documentation."""
    kind = ("boolean",) if isinstance(default, bool) else ("decimal", 38, 0) if isinstance(default, int) else ("string",)
    added = [WriterField(name, kind, kind, default=default, doc=name) for name in columns]
    schema = evolve(None, [WriterSchema("w", (WriterField("id", ("int",), ("int",)), *added))], ["id"], 3, "t").schema
    raw = (*tuple((field.source.lower(), field.type) for field in schema.fields), ("seq", "bigint"))
    delta = Delta("d", "delta/d", 1, 0, (), None, None)
    return Snapshot("t", "u", 3, 2, "w", "", "", "commit", schema, (("seq", "bigint"),), "b", (), delta, raw=raw)


SPEC = TableSpec("t", "/lake/t", "/lake/t/incremental", "%H", "db", "t", "db", ("id",))


@sized(150)
@given(columns=st.lists(HOSTILE, min_size=1, max_size=4, unique_by=str.lower), default=DEFAULTS)
def test_views_have_the_same_tokens_whatever_columns_are_called(columns: list[str], default: Any) -> None:
    """The view, its definition and the live view, to the parsers of Spark and of Hive."""
    # what Spark would take for a variable is written in parts
    harmless = "${" * default.count("${") if isinstance(default, str) else default
    bad, good = snapshot(columns, default), snapshot([f"c{at}" for at in range(len(columns))], harmless)
    texts = [views.view_text, views.reference_text]
    files = landed.table(SPEC, bad)
    assert all(re.fullmatch(r"\w+", column.name) for column in files.columns)
    if live.problem(SPEC, bad, files) is None:
        texts.append(lambda spec, of: live.live_view(spec, of, landed.table(spec, of), {"h": 0}).text)
    for text in texts:
        for dialect in ("spark", "hive"):
            assert tokens(text(SPEC, bad), dialect) == tokens(text(SPEC, good), dialect)


@sized(150)
@given(columns=st.lists(HOSTILE, min_size=1, max_size=4, unique_by=str.lower))
def test_definitions_hold_plain_names_and_one_line_comments(columns: list[str]) -> None:
    """What goes to the metastore by its own client: no engine has to quote these names, type texts read back."""
    of = snapshot(columns, None)
    for definition in (*views.tables(SPEC, of), views.view(SPEC, of)):
        for column in definition.columns:
            assert re.fullmatch(r"\w+", column.name), column
            assert column.comment == names.comment(column.comment)
            types.parse(column.type)


@given(name=HOSTILE)
def test_a_quoted_name_is_one_token(name: str) -> None:
    """And reads back as the name."""
    assert re.fullmatch(r"`([^`]|``)+`", quoted(name))
    for dialect in ("spark", "hive"):
        assert [(token.token_type, token.text) for token in sqlglot.tokenize(quoted(name), dialect=dialect)] == [(TokenType.IDENTIFIER, name)]


@given(text=HOSTILE | st.text())
def test_a_literal_is_one_token(text: str) -> None:
    """Nothing in it ends it, in a parser that knows backslashes; it reads back as the text."""
    literal = sql.literal(text)
    assert re.fullmatch(r"'([^'\\\x00-\x1f]|\\u[0-9a-f]{4})*'", literal)
    assert re.sub(r"\\u([0-9a-f]{4})", lambda code: chr(int(code[1], 16)), literal[1:-1]) == text
    assert [token.token_type for token in sqlglot.tokenize(literal, dialect="spark")] == [TokenType.STRING]


@given(texts=st.lists(HOSTILE, min_size=1, max_size=3, unique=True))
def test_expressions_over_raw_values_have_the_same_tokens(texts: list[str]) -> None:
    """Members of structs, structs, casts and typed nulls, made with the source's own names before they are mapped."""

    def made(members: list[str]) -> str:
        kind: types.Type = ("struct", tuple((name, ("int",)) for name in members))
        return f"SELECT {sql.struct([(name, sql.member('v', name)) for name in members])}, {sql.cast('v', kind)}, {sql.null(('array', kind))}"

    assert tokens(made(texts), "spark") == tokens(made([f"m{at}" for at in range(len(texts))]), "spark")


@given(members=st.lists(HOSTILE, min_size=1, max_size=3, unique=True), quote=st.booleans())
def test_a_type_text_reads_back_whatever_its_members_are_called(members: list[str], quote: bool) -> None:
    """Quoted where it must be."""
    kind: types.Type = ("struct", tuple((name, ("map", ("string",), ("int",))) for name in members))
    assert types.parse(types.text(kind, quote)) == kind
    assert types.parse(types.text(types.stored_names(kind))) == types.stored_names(kind)
