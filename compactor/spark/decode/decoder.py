"""A decoder: the functions that an envelope brings along. `spark/reading.py` has the table of all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from compactor.core.model.inputs import Input
from compactor.core.model.spec import TableSpec
from compactor.spark.decode.frame import Frame
from compactor.spark.decode.order import default_order
from compactor.spark.input.files import RawFrame
from compactor.spark.rows import survey


def _unchanged(frame: Frame, spec: TableSpec, inputs: Sequence[Input]) -> Frame:
    return frame


def _declared_order(spec: TableSpec) -> tuple[str, ...]:
    return spec.order_by


def _connectors_order(spec: TableSpec, frames: Sequence[Frame]) -> tuple[str, ...]:
    return spec.order_by or default_order(*survey.connector(frames), spec.name)


def _any_names(spec: TableSpec, order: Sequence[str], paths: Sequence[str]) -> None:
    pass


def _no_identity(path: str) -> str | None:
    return None


@dataclass(frozen=True)
class Decoder:
    """The functions of one envelope. The defaults fit records that name their connector."""

    decode: Callable[[RawFrame, TableSpec], Frame]
    """Makes a Frame of one raw frame. Raises InputRefused for files that cannot hold such records."""

    settle: Callable[[Frame, TableSpec, Sequence[Input]], Frame] = _unchanged
    """Completes a Frame whose columns are known: takes operation, order and time out of the row. `inputs` are all inputs of the batch."""

    order: Callable[[TableSpec, Sequence[Frame]], tuple[str, ...]] = _connectors_order
    """Returns the order columns of a new table. Raises OrderRefused when nothing orders its changes."""

    declared_order: Callable[[TableSpec], tuple[str, ...]] = _declared_order
    """Returns the order columns that the settings ask for, which must be those of a table that exists; () when they ask for none."""

    check_names: Callable[[TableSpec, Sequence[str], Sequence[str]], None] = _any_names
    """Raises OrderRefused when the order columns (second argument) need file names that these paths do not have."""

    file_identity: Callable[[str], str | None] = _no_identity
    """Returns what identifies the file at a path among all files of the table. None: its content does."""
