"""Decimals as Kafka Connect writes them: a whole number of any length in bytes, and a scale."""

from __future__ import annotations

from compactor.core.model import types
from compactor.spark.sql import let


def unscaled(value: str, kind: types.Type) -> str:
    """SQL: big-endian two's complement (bytes, or base64 text) as the digits of a whole number of any length.

    Up to 16 bytes by two 64-bit halves; longer numbers by limbs of nine digits, because Spark's decimal ends at 38.
    """
    padded = "lpad(_h, 32, CASE WHEN substr(_h, 1, 1) >= '8' THEN 'F' ELSE '0' END)"
    high, low = ("CAST(conv(substr(_p, 1, 16), 16, -10) AS DECIMAL(19,0))", "CAST(conv(substr(_p, 17, 16), 16, 10) AS DECIMAL(20,0))")
    short = f"CAST(try_add(try_multiply({high}, CAST(18446744073709551616 AS DECIMAL(20,0))), {low}) AS STRING)"
    fits = f"CASE WHEN length(_h) BETWEEN 1 AND 32 THEN {let(padded, '_p', short)} END"
    digits = f"hex({value})" if kind[0] == "binary" else f"hex(try_to_binary({value}, 'base64'))"
    return let(digits, "_h", let(fits, "_f", f"CASE WHEN _f IS NOT NULL THEN _f WHEN length(_h) > 0 THEN {_long()} END"))


def _long() -> str:
    """SQL: the same for `_h` of any length."""
    negative = "substr(_h, 1, 1) >= '8'"
    magnitude = f"CASE WHEN {negative} THEN translate(_h, '0123456789ABCDEF', 'FEDCBA9876543210') ELSE _h END"
    even = f"lpad({magnitude}, CAST(ceil(length(_h) / 6.0) AS INT) * 6, '0')"
    chunks = "transform(sequence(1, length(_e), 6), _q -> CAST(conv(substr(_e, _q, 6), 16, 10) AS BIGINT))"
    # a limb takes what its neighbour carries and hands its own carry on in the next step: it stays below two billion, and no step waits for another
    product, carried = "_d * 16777216L", "CASE WHEN _i = 0 THEN _c ELSE (get(_a, _i - 1) * 16777216L) div 1000000000L END"
    step = f"transform(concat(_a, array(0L)), (_d, _i) -> ({product}) % 1000000000L + {carried})"
    limbs = let(even, "_e", f"aggregate({chunks}, array(0L), (_a, _c) -> {step})")
    # two's complement: the magnitude of a negative number is its inverted bits plus one
    signed = let(limbs, "_n", _plus("_n", f"CASE WHEN {negative} THEN 1L ELSE 0L END"))
    joined = f"array_join(transform(reverse({signed}), _l -> lpad(CAST(_l AS STRING), 9, '0')), '')"
    return f"concat(CASE WHEN {negative} THEN '-' ELSE '' END, regexp_replace({joined}, '^0+(?=.)', ''))"


def _plus(limbs: str, number: str) -> str:
    sum_ = "(_d + _s.k)"
    start = f"named_struct('k', {number}, 'out', CAST(array() AS ARRAY<BIGINT>))"
    step = f"named_struct('k', {sum_} div 1000000000L, 'out', concat(_s.out, array({sum_} % 1000000000L)))"
    return f"aggregate({limbs}, {start}, (_s, _d) -> {step}, _s -> CASE WHEN _s.k > 0L THEN concat(_s.out, array(_s.k)) ELSE _s.out END)"


def point(digits: str, scale: str) -> str:
    """SQL: the digits of a whole number with a point before the last `scale` (SQL) of them; zeros behind them if it is negative."""
    bare = "ltrim('-', _t)"
    sign = "CASE WHEN _t LIKE '-%' THEN '-' ELSE '' END"
    wide = f"lpad({bare}, greatest(length({bare}), {scale} + 1), '0')"
    fraction = f"concat({sign}, substr({wide}, 1, length({wide}) - {scale}), '.', substr({wide}, length({wide}) - {scale} + 1))"
    return let(digits, "_t", f"CASE WHEN {scale} > 0 THEN {fraction} WHEN _t = '0' THEN '0' ELSE concat(_t, repeat('0', -({scale}))) END")
