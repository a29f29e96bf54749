"""JSON text: every record is one whole JSON document in UTF-8, and nothing of a line is left out.

Spark's readers take the first document of a text and leave the rest. They make U+FFFD of bytes that are no UTF-8, and `?` of the escape of
half a character, so that different texts become equal. Here such records are UNREADABLE, and a line of several documents becomes a row for each.

| a line | becomes |
|---|---|
| a document | a row |
| documents one after the other (Firehose writes no line ends) | a row for each, in their order |
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
from compactor.spark.sql import is_utf8, let, literal, not_utf8

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


_MORE = r"\}\s*+(,\s*+\{|[^,}\]\s])"
"""What a line has that begins with one document and ends with another. Other lines may have it, inside of strings and arrays of objects."""
_END = "end of the document"


def _is_one(text: str) -> str:
    """SQL: whether a text is one JSON value and nothing else; may be null if not. What comes after a value would not let the other name come."""
    return f"size(json_object_keys(concat('{{\"d\":', {text}, ',\"{_END}\":0}}'))) = 2"


def _why(text: str) -> str:
    """SQL: why a text in UTF-8 that is not one JSON document cannot be used; null where the decoder sees it."""
    return (
        f"CASE WHEN json_object_keys({text}) IS NOT NULL THEN {literal(_REST)} WHEN {text} RLIKE '^\\\\s*\\\\[' THEN {literal(_ARRAY)} "
        f"WHEN {text} RLIKE '^\\\\s*\\\\{{\\\\s*$' THEN {literal(_PART)} END"
    )


_NO_OBJECT = "is not a JSON object"
_NO_NUMBER = "is not a JSON object: JSON has no NaN and no Infinity. Have the source write null, or text"


def no_object(text: str) -> str:
    """SQL: why a text without keys (`json_object_keys`) is no JSON object."""
    numbers = f"json_object_keys({pg_text.exact_numbers(text)}) IS NOT NULL"
    return f"CASE WHEN {text} RLIKE 'NaN|Infinity' AND {numbers} THEN {literal(_NO_NUMBER)} ELSE {literal(_NO_OBJECT)} END"


def problem(text: str) -> str:
    """SQL: why a text cannot be read as one JSON document, or null."""
    return f"CASE WHEN NOT {is_text(text)} THEN {_no_text(text)} WHEN trim({text}) = '' OR {_is_one(text)} THEN NULL ELSE {_why(text)} END"


def documents(lines: DataFrame, too_long: str, no_document: str) -> DataFrame:
    """Return lines (FILE, BLOCK, ROW, TEXT) as rows of one document each, with UNREADABLE. Reads the lines once.

    `too_long`: SQL for why a line is longer than the limit. Such a line is cut, so that nobody parses it. `no_document`: SQL for why a line has no
    record, whatever JSON it is.
    """
    plain = f"{too_long} IS NULL AND {is_text(TEXT)} AND ({_QUICK} OR coalesce({_SINGLE}, false) AND {no_document} IS NULL)"
    if measured.compute(lines, {"plain": f"min({plain})"})["plain"] is not False:
        return lines.selectExpr("*", f"CAST(NULL AS STRING) AS {UNREADABLE}")
    return _divided(lines, too_long, no_document)


_FLAT = f"octet_length(substring_index({TEXT}, '}}', 1)) + 1 = octet_length({TEXT})"

_QUICK = f"startswith({TEXT}, '{{') AND ({_FLAT} OR (endswith({TEXT}, '}}') AND NOT {TEXT} RLIKE {literal(_MORE)}))"
"""SQL: whether a line is one document at a quick look; false for some that are. To parse a line costs as much as its values."""
_SINGLE = f"NOT startswith(ltrim({TEXT}), '[') AND ({_is_one(TEXT)} OR trim({TEXT}) = '')"
"""SQL: whether a line is one document or blank; may be null if not."""


def _divided(lines: DataFrame, too_long: str, no_document: str) -> DataFrame:
    bare = f"regexp_replace(regexp_replace({TEXT}, {literal(_BEGINS)}, ''), {literal(_ENDS)}, '')"
    pieces = f"split(regexp_replace({bare}, {literal(_ADJACENT)}, '$1\\n'), '\\n')"
    whole = f"forall(_p, _d -> _d = '' OR (json_object_keys(_d) IS NOT NULL AND coalesce({_is_one('_d')}, false)))"
    single = f"array(named_struct('text', {TEXT}, 'why', {{0}}))"
    packed = f"CASE WHEN startswith(CAST({TEXT} AS BINARY), X'1F8B') THEN {literal(_PACKED)} END"
    each = "transform(_p, _d -> named_struct('text', _d, 'why', CAST(NULL AS STRING)))"
    divided = f"CASE WHEN {whole} THEN {each} ELSE {single.format(_why(TEXT))} END"
    rows_of_line = (
        f"CASE WHEN {too_long} IS NOT NULL THEN array(named_struct('text', substr({TEXT}, 1, {TEXT_MAX}), 'why', {too_long})) "
        f"WHEN NOT {is_text(TEXT)} THEN {single.format(f'coalesce({packed}, {_no_text(TEXT)})')} "
        f"WHEN {_QUICK} THEN {single.format('CAST(NULL AS STRING)')} "
        # `no_document` also names texts that are one JSON value and no record
        f"WHEN {_SINGLE} OR {no_document} IS NOT NULL THEN {single.format(no_document)} "
        f"ELSE {let(pieces, '_p', divided)} END"
    )
    rows = lines.selectExpr(FILE, BLOCK, f"inline({rows_of_line}) AS ({TEXT}, {UNREADABLE})")
    return rows.selectExpr(FILE, BLOCK, f"{IN_PARTITION} AS {ROW}", TEXT, UNREADABLE)
