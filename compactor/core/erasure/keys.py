"""Keys to erase: read from text, hashed into the Erased of a table, and held against a changed key or secret."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
from collections.abc import Collection, Sequence

from compactor.core.model import types
from compactor.core.model.errors import Refused
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Erased


def hashed(text: str, secret: bytes) -> str:
    """Return the keyed hash of a key as text."""
    return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()


def fingerprint(secret: bytes) -> str:
    """Return a hash that only this secret gives."""
    return hashed("the secret of erased keys", secret)[:16]


def with_keys(erased: Erased | None, texts: Collection[str], secret: bytes, table: str) -> Erased:
    """Return the erased keys and these, given as text. Raises Refused if the secret is another one than before."""
    if erased is None:
        erased = Erased(fingerprint(secret), ())
    check_secret(erased, secret, table)
    return dataclasses.replace(erased, keys=tuple(sorted({*erased.keys, *(hashed(text, secret) for text in texts)})))


def check_secret(erased: Erased, secret: bytes, table: str) -> None:
    """Raise Refused if the secret is not the one that the keys were hashed with."""
    if fingerprint(secret) != erased.secret:
        raise Refused(
            f"table {table}: the secret of hashes (COMPACTOR_HASH_KEY, or `hash_secret`) is not the one that the erased keys were hashed with, so "
            "their events would not be recognised. Nothing was read or written. Set the secret that was set when they were erased."
        )


def check_key(table: str, before: Schema, after: Schema) -> None:
    """Raise Refused if the key of a table with erased keys becomes another one, or one of other types: the hashes would recognise no key."""
    # a whole number stays the same text when its column changes from one type of these to another
    was, now = ([(name, schema.field(name).type) for name in schema.key] for schema in (before, after))
    if [name for name, _ in was] == [name for name, _ in now] and all(
        old == new or {old, new} <= {*types.INTEGERS} for (_, old), (_, new) in zip(was, now)
    ):
        return
    shown = [", ".join(f"{name} {kind}" for name, kind in key) for key in (was, now)]
    raise Refused(
        f"table {table}: keys were erased while the key was ({shown[0]}). With the key ({shown[1]}) their events would not be recognised, and the "
        "rows would come back. Nothing was committed. Keep the key and its types, or begin the table anew from its source."
    )


def key_values(text: str, columns: Sequence[str], table: str) -> tuple[str, ...]:
    """Return a text for each key column: of `7` for one column, of `{"id": 7, "part": "x"}` for any. Raises Refused for anything else.

    >>> key_values("7", ["id"], "t"), key_values('{"part": "x", "id": 7}', ["id", "part"], "t")
    (('7',), ('7', 'x'))
    """
    if len(columns) == 1 and not text.lstrip().startswith("{"):
        return (text,)
    expected = ", ".join(f'"{name}": ..' for name in columns)
    try:
        raw = json.loads(text, parse_float=str)
    except ValueError:
        raw = None
    if not isinstance(raw, dict) or set(raw) != set(columns) or not all(isinstance(raw[name], (str, int)) for name in columns):
        raise Refused(f"table {table}: expected a key as {{{expected}}}, with a text or a number for each column, found {text}")
    return tuple(str(raw[name]) for name in columns)
