"""Numbers about rows, computed in the pass that computes or writes the rows anyway. A job of their own would plan and run everything again.

`observe` attaches aggregates to rows, and `write_parquet` or `materialize_and_measure` is the pass. Both return the numbers with their result, so
nobody waits for Spark's listeners, which may lose events. Numbers are None where Spark saw before the pass that there are no rows.

Spark counts a row twice if it runs a step twice: where a stage is repeated because an executor was lost, and below `repartitionByRange`, which reads
its rows once more to sample them. A count from here must agree with a number from elsewhere, or be counted again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import DoubleType, FloatType, StructType

from compactor.spark.jvm import private
from compactor.spark.sql import literal, named

Numbers = Mapping[str, Any]
"""Name → value of an aggregate. Structs are objects by member, decimals are Decimal."""


def observe(rows: DataFrame, label: str, aggregates: Mapping[str, str]) -> DataFrame:
    """Return the same rows; the pass that computes them also computes these aggregates (name → SQL). `label` is unique within the pass."""
    return rows.observe(label, named(_as_json(aggregates), "numbers"))


def compute(rows: DataFrame, aggregates: Mapping[str, str]) -> Numbers:
    """Compute these aggregates (name → SQL) in one Spark job."""
    return _parsed(rows.agg(named(_as_json(aggregates), "numbers")).collect()[0].numbers)


def _as_json(aggregates: Mapping[str, str]) -> str:
    members = ", ".join(f"{literal(name)}, {sql}" for name, sql in aggregates.items())
    return f"to_json(named_struct({members}), map('ignoreNullFields', 'false'))"


def _parsed(text: str) -> Numbers:
    numbers: Numbers = json.loads(text, parse_float=Decimal)
    return numbers


@dataclass(frozen=True)
class Pass:
    """One pass over rows, after it ran."""

    _metrics: Mapping[str, str]
    rows: int | None = None
    """The rows that it wrote, as its tasks counted them."""

    def numbers(self, label: str) -> Numbers | None:
        """Return the aggregates that `observe` attached under this label, or None if Spark did not compute them."""
        return _parsed(self._metrics[label]) if label in self._metrics else None


def materialize(rows: DataFrame) -> DataFrame:
    """Return the rows, which the first job that needs them computes for all later ones. The caller releases them when they are no longer needed.

    Their plan does not say how they are computed. Spark would look through a cached plan again at every step, which costs more than computing small
    data, and in a commit with history gigabytes of the driver's memory. On one machine this is a local checkpoint. On a cluster Spark computes the
    rows of a lost executor again.
    """
    return rows.localCheckpoint(eager=False) if _one_machine(rows) else private.keep_with_lineage(rows)


def release(rows: DataFrame) -> None:
    """Free rows that `materialize` returned. Checkpoints are freed when nothing names them any more."""
    if not _one_machine(rows):
        private.free(rows)


def materialize_and_measure(rows: DataFrame, aggregates: Mapping[str, str]) -> tuple[DataFrame, Numbers]:
    """Return the rows computed once as `materialize` does, and these aggregates of them (name → SQL). One Spark job."""
    if not _one_machine(rows):
        kept = materialize(rows)
        return kept, compute(kept, aggregates)
    observed = observe(rows, "all", aggregates)
    kept = observed.localCheckpoint()
    numbers = Pass(private.metrics(observed)).numbers("all")
    return kept, compute(kept, aggregates) if numbers is None else numbers


def _one_machine(rows: DataFrame) -> bool:
    return str(rows.sparkSession.sparkContext.master).startswith("local")


def parquet_options(schema: StructType) -> dict[str, str]:
    """Return options for a writer of Parquet: no dictionary of floating-point values, also as members of structs.

    By a dictionary Spark's reader skips row groups, and to this reader 0.0 is not -0.0: `WHERE x = 0` would lose rows.
    """

    def floating(kind: StructType, path: str = "") -> Iterator[str]:
        for field in kind.fields:
            if isinstance(field.dataType, StructType):
                yield from floating(field.dataType, f"{path}{field.name}.")
            elif isinstance(field.dataType, (FloatType, DoubleType)):
                yield path + field.name

    return {f"parquet.enable.dictionary#{path}": "false" for path in floating(schema)}


def write_parquet(rows: DataFrame, directory: str, *folders: str, options: Mapping[str, str] = MappingProxyType({})) -> Pass:
    """Write rows into a new directory, with folders for the values of the columns `folders`. One Spark job."""
    written, metrics = private.write_parquet(rows, directory, [*folders], {**parquet_options(rows.schema), **options})
    return Pass(metrics, written)
