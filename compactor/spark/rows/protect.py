"""Hash, mask and remove the values of protected columns, before the changes are kept anywhere."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pyspark.sql import DataFrame

from compactor.core.model.errors import Refused
from compactor.core.model.policy import HASH, HASH_KEY, MASK, NULL, Protection
from compactor.core.model.schema import Schema
from compactor.spark.sql import literal, quoted

_BLOCK = 64
"""Bytes of a block of SHA-256 (RFC 2104)."""


def protect(changes: DataFrame, schema: Schema, rules: Sequence[Protection], table: str) -> DataFrame:
    """Return the changes with the values that are stored. Raises Refused if a column is hashed and there is no secret."""
    if not rules:
        return changes
    by_name = {field.name: rule for field in schema.fields for rule in rules if rule.covers(field.source, *field.formerly)}
    kinds = {field.name: field.type for field in schema.fields}
    stored = {name: _value(quoted(name), rule, kinds[name], table) for name, rule in by_name.items()}
    columns = [f"{stored[name]} AS {quoted(name)}" if name in stored else quoted(name) for name in changes.columns]
    return changes.selectExpr(*columns)


def _value(value: str, rule: Protection, kind: str, table: str) -> str:
    if rule.kind == NULL:
        return f"CAST(NULL AS {kind})"
    if rule.kind == MASK:
        hidden = f"greatest(length({value}) - {rule.keep}, 0)"
        # a value that is not longer than what stays readable is hidden as a whole
        shown = f"concat(repeat('*', {hidden}), right({value}, {rule.keep}))"
        return f"CASE WHEN length({value}) > {rule.keep} THEN {shown} ELSE repeat('*', length({value})) END"
    assert rule.kind == HASH
    return hashed(value, secret(table, "`columns:` hashes a column"))


def hashed(value: str, key: bytes) -> str:
    """SQL: the HMAC-SHA256 of a text (RFC 2104), in hexadecimal digits."""
    padded = key.ljust(_BLOCK, b"\0")
    inner, outer = bytes(byte ^ 0x36 for byte in padded), bytes(byte ^ 0x5C for byte in padded)
    return f"sha2(concat({literal(outer)}, unhex(sha2(concat({literal(inner)}, cast({value} AS binary)), 256))), 256)"


def secret(table: str, why: str) -> bytes:
    """Return the secret of hashes. `why`: what needs it, for the message. Raises Refused if there is none, or if it is too short or too long."""
    value = os.environ.get(HASH_KEY, "").encode()
    if len(value) < 16:
        raise Refused(f"table {table}: {why}, which needs a secret. Set the environment variable {HASH_KEY} to at least 16 bytes.")
    if len(value) > _BLOCK:
        raise Refused(f"table {table}: the secret in {HASH_KEY} has more than {_BLOCK} bytes. Set a shorter one.")
    return value
