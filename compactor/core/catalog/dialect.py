"""How an engine spells names, texts and types in a view. Hive's spelling is Spark's too; Presto's is Trino's and Athena's.

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
    """`name` quotes an identifier, `text` a string, `type` spells a Hive type text."""

    called: str
    name: Callable[[str], str]
    text: Callable[[str], str]
    type: Callable[[str], str]


def _hive_text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _presto_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _presto_text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def presto_type(text: str) -> str:
    """Hive's type text as Presto spells it.

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
