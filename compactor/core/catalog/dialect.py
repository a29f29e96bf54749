"""SQL dialects of views: how names, strings and types are written. Spark uses Hive's dialect; Trino and Athena use Presto's.

Type names: https://trino.io/docs/current/language/types.html, and the mapping of its Hive connector.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compactor.core.catalog.ddl import quoted
from compactor.core.model import types

HIVE_NAME, PRESTO_NAME = "hive", "presto"
_PRESTO = {"int": "integer", "float": "real", "string": "varchar", "binary": "varbinary", "timestamp": "timestamp(3)"}


@dataclass(frozen=True)
class Dialect:
    """How an engine writes SQL."""

    called: str
    """HIVE_NAME or PRESTO_NAME."""
    name: Callable[[str], str]
    """Quotes an identifier."""
    text: Callable[[str], str]
    """Quotes a string."""
    type: Callable[[str], str]
    """Converts a Hive type text."""


def _hive_text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _presto_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _presto_text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def presto_type(text: str) -> str:
    """Return a Hive type text in Presto's form.

    >>> presto_type("array<struct<a:int,b c:string>>")
    'array(row("a" integer,"b c" varchar))'
    """
    return _presto(types.parse(text))


def _presto(kind: types.Type) -> str:
    if kind[0] == "decimal":
        return f"decimal({kind[1]},{kind[2]})"
    if kind[0] in ("array", "map"):
        return f"{kind[0]}({','.join(_presto(part) for part in kind[1:])})"
    if kind[0] == "struct":
        return f"row({','.join(f'{_presto_name(name)} {_presto(member)}' for name, member in kind[1])})"
    return _PRESTO.get(kind[0], str(kind[0]))


HIVE = Dialect(HIVE_NAME, quoted, _hive_text, str)
PRESTO = Dialect(PRESTO_NAME, _presto_name, _presto_text, presto_type)
