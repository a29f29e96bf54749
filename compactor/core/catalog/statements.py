"""SQL text: split into statements, and what a statement mentions. Enough to choose an engine; only the engine parses it."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TEXTS = (r"(?P<text>'(?:[^']|'')*')|(?P<quoted>\"(?:[^\"]|\"\")*\")", r"(?P<text>'(?:[^'\\]|\\.|'')*')|(?P<quoted>\"(?:[^\"\\]|\\.|\"\")*\")")
_TOKENS = [
    re.compile(
        rf"(?P<comment>--[^\n]*|/\*.*?\*/)|{texts}|(?P<ticked>`(?:[^`]|``)*`)|(?P<word>[^\W\d]\w*)|(?P<end>;)|(?P<open>'|\"|`|/\*)|(?P<other>.)",
        re.DOTALL,
    )
    for texts in _TEXTS
]
"""For standard SQL, and for Spark, where a backslash in a text escapes a character."""
_QUOTES = {"word": "", "quoted": '"', "ticked": "`"}
"""Kind of a token that is a name → its quotes."""

READS = ("select", "with", "from", "values", "table", "describe", "desc", "show", "summarize", "pivot", "unpivot")

_DESCRIBE = re.compile(r"\s*desc(?:ribe)?\s+(?:table\s+)?(?P<name>[\w.\"]+)\s*", re.IGNORECASE)
_SHOW_TABLES = re.compile(r"\s*show\s+tables\s*", re.IGNORECASE)


def _tokens(text: str, escapes: bool = False) -> Iterator[tuple[str, str]]:
    for match in _TOKENS[escapes].finditer(text):
        yield str(match.lastgroup), match[0]


def _name(kind: str, piece: str) -> str:
    """Return the name that a token writes."""
    quote = _QUOTES[kind]
    return piece[1:-1].replace(2 * quote, quote) if quote else piece


def split(text: str, escapes: bool = False) -> list[str]:
    """Return the statements of a text, without `;` and without those that are empty.

    `escapes`: texts have backslashes as Spark reads them.

    >>> split("select ';' a; -- one; two\\nselect 2;")
    ["select ';' a", '-- one; two\\nselect 2']
    >>> split("select 'it\\\\'s; ok'; select 2", escapes=True), split("select 'a\\\\'; select 2")
    (["select 'it\\\\'s; ok'", 'select 2'], ["select 'a\\\\'", 'select 2'])
    """
    out, current, content = [], "", False
    for kind, piece in _tokens(text, escapes):
        if kind == "end":
            out += [current.strip()] if content else []
            current, content = "", False
            continue
        current, content = current + piece, content or (kind != "comment" and not piece.isspace())
    return [*out, current.strip()] if content else out


def unfinished(text: str, escapes: bool = False) -> bool:
    """Return whether a text ends inside of a statement, so that a shell waits for more lines. `escapes`: see `split`.

    >>> unfinished("select 1"), unfinished("select 1;"), unfinished("select ';"), unfinished("  ")
    (True, False, True, False)
    """
    last, opened = "end", False
    for kind, piece in _tokens(text, escapes):
        opened = opened or kind == "open"
        if kind != "comment" and not piece.isspace():
            last = kind
    return opened or last != "end"


def first_word(text: str) -> str:
    """Return the first word in lower case, "" without one. Opening brackets are passed over."""
    for kind, piece in _tokens(text):
        if kind == "word":
            return piece.lower()
        if kind != "comment" and not piece.isspace() and piece not in "(":
            return ""
    return ""


def in_one_dialect(text: str) -> str | None:
    """Return a part of a statement that Spark reads otherwise than standard SQL, though both can parse it; None without such a part.

    >>> in_one_dialect('select "id"'), in_one_dialect("select 'a\\\\n'"), in_one_dialect("select 1L, a1, 1e3, 'it''s'")
    ('double quotes (a text in Spark, a name in DuckDB)', "a backslash in a text (Spark's escape)", 'the number 1L')
    """
    before = digits = ""
    for kind, piece in _tokens(text):
        if kind == "quoted":
            return "double quotes (a text in Spark, a name in DuckDB)"
        if kind == "text" and "\\" in piece:
            return "a backslash in a text (Spark's escape)"
        if kind == "text" and before == "text":
            return "two texts side by side"
        if kind == "word" and before == "digit" and not re.fullmatch(r"[eE]\d*", piece):
            return f"the number {digits}{piece}"
        if kind == "other" and piece.isdigit():
            digits, before = (digits if before == "digit" else "") + piece, "digit"
        elif kind != "comment" and not (piece.isspace() and before == "text"):
            before = kind
    return None


def for_spark(text: str) -> str:
    """Return a statement with the quotes in its texts as Spark writes them. To Spark 3, `'it''s'` is two texts side by side.

    >>> for_spark("select 'it''s', ''")
    "select 'it\\\\'s', ''"
    """
    pieces = [*_tokens(text, escapes=True)]
    return "".join("'" + piece[1:-1].replace("''", "\\'") + "'" if kind == "text" and "\\" not in piece else piece for kind, piece in pieces)


def for_duckdb(text: str) -> str:
    """Return a statement with names in Hive's back quotes as standard SQL writes them.

    >>> for_duckdb("select `a b`, '`'")
    'select "a b", \\'`\\''
    """
    quoted = ('"' + _name(kind, piece).replace('"', '""') + '"' if kind == "ticked" else piece for kind, piece in _tokens(text))
    return "".join(quoted)


def mentioned(text: str, escapes: bool = False) -> set[str]:
    """Return every word and quoted name of a statement in lower case: its tables and more. `escapes`: see `split`.

    >>> sorted(mentioned('select "A b", `C`, \\'text\\' from s.t'))
    ['a b', 'c', 'from', 's', 'select', 't']
    """
    return {_name(kind, piece).lower() for kind, piece in _tokens(text, escapes) if kind in _QUOTES}


def qualified(text: str, escapes: bool = False) -> set[tuple[str, str]]:
    """Return the pairs of names with a dot between in lower case: database and table, table and column. `escapes`: see `split`.

    >>> sorted(qualified("select t.id from `My db`.t"))
    [('my db', 't'), ('t', 'id')]
    """
    pieces = [(kind, piece) for kind, piece in _tokens(text, escapes) if kind != "comment" and not piece.isspace()]
    triples = zip(pieces, pieces[1:], pieces[2:])
    return {
        (_name(*left).lower(), _name(*right).lower())
        for left, (_, dot), right in triples
        if left[0] in _QUOTES and dot == "." and right[0] in _QUOTES
    }


def described(text: str) -> str | None:
    """Return the table of a plain `describe` in lower case, None for any other statement.

    >>> described("DESC School.student"), described("describe `order`"), described("describe extended student")
    ('student', 'order', None)
    """
    match = _DESCRIBE.fullmatch(for_duckdb(text))
    return match["name"].replace('"', "").lower().rpartition(".")[2] if match else None


def shows_tables(text: str) -> bool:
    return bool(_SHOW_TABLES.fullmatch(text))
