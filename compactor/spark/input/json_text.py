"""JSON text: every record is one whole JSON document in UTF-8, and nothing of a line is left out.

Spark's readers take the first document of a text and leave the rest. They make U+FFFD of bytes that are no UTF-8, and `?` of the escape of
half a character, so that different texts become equal. Here such records are UNREADABLE, and a line of several documents becomes a row for each.

| a line | becomes |
|---|---|
| a document | a row |
| documents one after the other (Firehose writes no line ends) | a row for each, in their order |
| a JSON string with a document in it (Connect's StringConverter with a JSON format) | the row of its document |
| `[`, `{..},` or `]`: an array with an object a line (Aiven's sink) | the row of its document, or a blank one |
| an array of several, part of a document, a document and other text | one row, UNREADABLE or refused by the decoder |

Nearly all files have one document a line. One look at the lines shows it: rows that go through a generator cost more in each pass that decodes them.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from compactor.core.sources.quarantine import TEXT_MAX
from compactor.spark import measured
from compactor.spark.columns import BLOCK, FILE, ROW, TEXT, UNREADABLE
from compactor.spark.decode import pg_text
from compactor.spark.input.files import IN_PARTITION
from compactor.spark.sql import from_json, is_utf8, let, literal, not_utf8

_ADJACENT = rf'(?s)\G((?:[^"}}]++|{pg_text.STRING}|\}}(?!\s*+\{{))*+\}})\s*+(?=\{{)'
"""A text up to the next `}` that a `{` follows. Outside of strings that is the end of a document; what is inside one has a comma between."""
_BEGINS, _ENDS = r"^\s*+\[\s*+", r"\s*+[,\]]\s*+$"
"""What a line has of an array around its elements."""
_REST = "has text after its JSON object; expected one JSON object a line. Have the sink write JSON lines"
_ARRAY = "is a JSON array, not a JSON object; expected one JSON object a line. Have the sink write JSON lines (Aiven: `format.output.type: jsonl`)"
_PART = "is not a JSON object but the first line of one; expected one JSON object a line. Have the sink write JSON lines, not pretty-printed JSON"

_HALF = r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
"""The escape of one half of a character beyond U+FFFF, without the other half beside it. UTF-8 has no bytes for it, and Spark makes `?` of each."""
_BACKSLASH = r"\\\\"
_PACKED = "is packed with gzip, and the file's name does not end in .gz. Have the sink name it so"
_HALVED = "has half of a character, such as \\ud83d without the other half. Have the source write whole characters"


def is_text(text: str) -> str:
    """SQL: whether a text of JSON is in UTF-8, and its escapes are of whole characters."""
    return f"({is_utf8(text)} AND NOT {_is_halved(text)})"


def _is_halved(text: str) -> str:
    # two backslashes are a text's backslash, whatever follows
    escapes = f"regexp_replace({text}, {literal(_BACKSLASH)}, ' ')"
    may_be = " OR ".join(f"contains({text}, {literal(start)})" for start in (r"\ud", r"\uD"))
    return f"(({may_be}) AND {escapes} RLIKE {literal(_HALF)})"


def _no_text(text: str) -> str:
    """SQL: why a text is no text, or null."""
    return f"coalesce({not_utf8(text)}, CASE WHEN {_is_halved(text)} THEN {literal(_HALVED)} END)"


_END = "end of the document"


_LEVELS_MAX = 128
"""How deep objects and arrays may be nested; MongoDB allows 100. Spark fails on the type of a value of 500 levels, and plans forever at 800."""
_DEEP = f"nests objects or arrays more than {_LEVELS_MAX} levels deep. Have the source write such a value as text"


def _is_one(text: str) -> str:
    """SQL: whether a text is one JSON value and nothing else; may be null if not. What comes after a value would not let the other name come."""
    return f"json_object_keys({_with_end(text)}) = array('d', '{_END}')"


def _with_end(text: str) -> str:
    return f"concat('{{\"d\":', {text}, ',\"{_END}\":0}}')"


def _is_deep(text: str) -> str:
    """SQL: whether one JSON value has too many levels."""
    opened = f"octet_length({text}) - octet_length(replace(replace({text}, '{{', ''), '[', ''))"
    shallow = from_json(_with_end(text), literal(f"`{_END}` INT"), maxNestingDepth=str(_LEVELS_MAX + 1))
    return f"({opened} > {_LEVELS_MAX} AND {shallow}.`{_END}` IS NULL)"


def _fits(text: str) -> str:
    """SQL: whether a text is one JSON value and nothing else, of not too many levels; may be null if not."""
    return f"({_is_one(text)} AND NOT {_is_deep(text)})"


def _why(text: str) -> str:
    """SQL: why a text in UTF-8 that is not one JSON document cannot be used; null where the decoder sees it."""
    return (
        f"CASE WHEN {_is_one(text)} AND {_is_deep(text)} THEN {literal(_DEEP)} WHEN json_object_keys({text}) IS NOT NULL THEN {literal(_REST)} "
        f"WHEN {text} RLIKE '^\\\\s*\\\\[' THEN {literal(_ARRAY)} WHEN {text} RLIKE '^\\\\s*\\\\{{\\\\s*$' THEN {literal(_PART)} END"
    )


_NO_OBJECT = "is not a JSON object"
_NO_NUMBER = "is not a JSON object: JSON has no NaN and no Infinity. Have the source write null, or text"


def no_object(text: str) -> str:
    """SQL: why a text without keys (`json_object_keys`) is no JSON object."""
    numbers = f"json_object_keys({pg_text.exact_numbers(text)}) IS NOT NULL"
    return f"CASE WHEN {text} RLIKE 'NaN|Infinity' AND {numbers} THEN {literal(_NO_NUMBER)} ELSE {literal(_NO_OBJECT)} END"


def problem(text: str) -> str:
    """SQL: why a text cannot be read as one JSON document, or null."""
    return f"CASE WHEN NOT {is_text(text)} THEN {_no_text(text)} WHEN trim({text}) = '' OR {_fits(text)} THEN NULL ELSE {_why(text)} END"


def documents(lines: DataFrame, too_long: str, no_document: str) -> DataFrame:
    """Return lines (FILE, BLOCK, ROW, TEXT) as rows of one document each, with UNREADABLE. Reads the lines once.

    `too_long`: SQL for why a line is longer than the limit. Such a line is cut, so that nobody parses it. `no_document`: SQL for why a line has no
    record, whatever JSON it is.
    """
    plain = f"{too_long} IS NULL AND {is_text(TEXT)} AND ({_QUICK} OR coalesce({_SINGLE}, false) AND {no_document} IS NULL)"
    if measured.compute(lines, {"plain": f"min({plain})"})["plain"] is not False:
        return lines.selectExpr("*", f"CAST(NULL AS STRING) AS {UNREADABLE}")
    return _divided(lines, too_long, no_document)


_QUICK = f"startswith({TEXT}, '{{') AND octet_length(substring_index({TEXT}, '}}', 1)) + 1 = octet_length({TEXT}) AND NOT contains({TEXT}, '[[')"
"""SQL: whether a line is one document at a quick look; false for some that are."""
_SINGLE = f"(startswith({TEXT}, '{{') OR left(ltrim({TEXT}), 1) NOT IN ('[', '\"')) AND ({_fits(TEXT)} OR trim({TEXT}) = '')"
"""SQL: whether a line is one document or blank; may be null if not."""


def _divided(lines: DataFrame, too_long: str, no_document: str) -> DataFrame:
    bare = f"regexp_replace(regexp_replace({TEXT}, {literal(_BEGINS)}, ''), {literal(_ENDS)}, '')"
    pieces = f"split(regexp_replace({bare}, {literal(_ADJACENT)}, '$1\\n'), '\\n')"
    whole = f"forall(_p, _d -> _d = '' OR (json_object_keys(_d) IS NOT NULL AND coalesce({_fits('_d')}, false)))"
    single = f"array(named_struct('text', {TEXT}, 'why', {{0}}))"
    string = f"{from_json(_with_end(TEXT), literal('d STRING'))}.d"
    # a text that holds no document goes on as it is
    unquoted = let(string, "_s", f"CASE WHEN startswith(ltrim(_s), '{{') AND {_fits('_s')} THEN _s ELSE {TEXT} END")
    packed = f"CASE WHEN startswith(CAST({TEXT} AS BINARY), X'1F8B') THEN {literal(_PACKED)} END"
    each = "transform(_p, _d -> named_struct('text', _d, 'why', CAST(NULL AS STRING)))"
    divided = f"CASE WHEN {whole} THEN {each} ELSE {single.format(_why(TEXT))} END"
    rows_of_line = (
        f"CASE WHEN {too_long} IS NOT NULL THEN array(named_struct('text', substr({TEXT}, 1, {TEXT_MAX}), 'why', {too_long})) "
        f"WHEN NOT {is_text(TEXT)} THEN {single.format(f'coalesce({packed}, {_no_text(TEXT)})')} "
        f"WHEN {_QUICK} THEN {single.format('CAST(NULL AS STRING)')} "
        # `no_document` also names texts that are one JSON value and no record
        f"WHEN {_SINGLE} OR {no_document} IS NOT NULL THEN {single.format(no_document)} "
        f"WHEN startswith(ltrim({TEXT}), '\"') AND {_is_one(TEXT)} THEN array(named_struct('text', {unquoted}, 'why', CAST(NULL AS STRING))) "
        f"ELSE {let(pieces, '_p', divided)} END"
    )
    rows = lines.selectExpr(FILE, BLOCK, f"inline({rows_of_line}) AS ({TEXT}, {UNREADABLE})")
    return rows.selectExpr(FILE, BLOCK, f"{IN_PARTITION} AS {ROW}", TEXT, UNREADABLE)
