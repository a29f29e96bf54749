"""Hash, mask and remove the values of protected columns, before the changes are kept anywhere."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame, SparkSession

from compactor.core.erasure import keys
from compactor.core.model.errors import Refused
from compactor.core.model.policy import HASH, HASH_KEY, MASK, NULL, Protection
from compactor.core.model.schema import Schema
from compactor.core.model.spec import TableSpec
from compactor.spark.jvm.private import register_constant
from compactor.spark.sql import quoted

_WHY = "`columns:` hashes a column"
_BLOCK = 64
"""Bytes of a block of SHA-256 (RFC 2104)."""


def protect(changes: DataFrame, schema: Schema, spec: TableSpec) -> DataFrame:
    """Return the changes with the values that are stored. Raises Refused if a column is hashed and there is no secret."""
    if not spec.columns:
        return changes
    by_name, kinds = _rules(spec, schema), {field.name: field.type for field in schema.fields}
    hashes = hashing(changes.sparkSession, secret(spec, _WHY)) if _has_hashes(by_name) else None
    stored = {name: _value(quoted(name), rule, kinds[name], hashes) for name, rule in by_name.items()}
    columns = [f"{stored[name]} AS {quoted(name)}" if name in stored else quoted(name) for name in changes.columns]
    return changes.selectExpr(*columns)


def _value(value: str, rule: Protection, kind: str, hashes: Callable[[str], str] | None) -> str:
    if rule.kind == NULL:
        return f"CAST(NULL AS {kind})"
    if rule.kind == MASK:
        hidden = f"greatest(length({value}) - {rule.keep}, 0)"
        # a value that is not longer than what stays readable is hidden as a whole
        shown = f"concat(repeat('*', {hidden}), right({value}, {rule.keep}))"
        return f"CASE WHEN length({value}) > {rule.keep} THEN {shown} ELSE repeat('*', length({value})) END"
    assert rule.kind == HASH
    assert hashes is not None
    return hashes(value)


def hashing(spark: SparkSession, key: bytes) -> Callable[[str], str]:
    """Return a function from SQL of a text to SQL, in this session, of its HMAC-SHA256 (RFC 2104) in hexadecimal digits."""
    padded = key.ljust(_BLOCK, b"\0")
    inner, outer = (_hidden(spark, bytes(byte ^ mask for byte in padded)) for mask in (0x36, 0x5C))
    return lambda value: f"sha2(concat({outer}, unhex(sha2(concat({inner}, cast({value} AS binary)), 256))), 256)"


_names: dict[bytes, str] = {}
"""Value → random name of its function. Tables with different secrets share a session."""


def _hidden(spark: SparkSession, value: bytes) -> str:
    """Return a call of a function of this session that gives these bytes and shows its name only."""
    name = _names.setdefault(value, f"compactor_hash_{secrets.token_hex(8)}")
    register_constant(spark, name, value)
    return f"{name}()"


def fingerprint(spec: TableSpec, schema: Schema | None) -> str:
    """Return what only the secret of hashed columns gives; "" if `columns:` hashes none of these. Raises Refused as `secret` does."""
    return keys.fingerprint(secret(spec, _WHY)) if schema and _has_hashes(_rules(spec, schema)) else ""


def _rules(spec: TableSpec, schema: Schema) -> dict[str, Protection]:
    """Return stored column → its rule."""
    return {field.name: rule for field in schema.fields for rule in spec.columns if rule.covers(field.source, *field.formerly)}


def _has_hashes(rules: Mapping[str, Protection]) -> bool:
    return any(rule.kind == HASH for rule in rules.values())


def secret(spec: TableSpec, why: str) -> bytes:
    """Return the secret of hashes. `why`: what needs it, for the message. Raises Refused if there is none, or if it is too short or too long."""
    place = f"`hash_secret` ({spec.hash_secret})" if spec.hash_secret else HASH_KEY
    value = _named(spec) if spec.hash_secret else os.environ.get(HASH_KEY, "").encode()
    if not value:
        raise Refused(
            f"table {spec.name}: {why}, which needs a secret. Set the environment variable {HASH_KEY} to at least 16 bytes; for jobs on EMR set "
            "`hash_secret` to the ARN of a secret in AWS Secrets Manager."
        )
    if not 16 <= len(value) <= _BLOCK:
        raise Refused(f"table {spec.name}: the secret in {place} has {len(value)} bytes; expected 16 to {_BLOCK}.")
    return value


def _named(spec: TableSpec) -> bytes:
    try:
        from compactor.aws.secrets import secret_text
    except ImportError:
        raise Refused(f"table {spec.name}: `hash_secret` is in AWS Secrets Manager, which needs boto3: pip install boto3") from None
    return secret_text(spec.hash_secret, spec.name).encode()
