"""Decoders: the functions that each envelope provides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from compactor.core.model.inputs import Input
from compactor.core.model.spec import TableSpec
from compactor.spark.decode import change_event, debezium, dms, flat, wal2json
from compactor.spark.decode.frame import Frame, declared_order
from compactor.spark.decode.order import default_order
from compactor.spark.input.files import RawFrame
from compactor.spark.rows import survey


def _connectors_order(spec: TableSpec, frames: Sequence[Frame]) -> tuple[str, ...]:
    return declared_order(spec.order_by, frames) or default_order(*survey.main_connector(frames), spec.name)


@dataclass(frozen=True)
class Decoder:
    """The functions of one envelope. The defaults fit records that name their connector."""

    decode: Callable[[RawFrame, TableSpec], Frame]
    """Makes a Frame of one raw frame. Raises InputRefused for files that cannot hold such records."""
    settle: Callable[[Frame, TableSpec, Sequence[Input]], Frame] = lambda frame, spec, inputs: frame
    """Completes a Frame whose columns are known: takes operation, order and time out of the row. `inputs` are all inputs of the batch."""
    order: Callable[[TableSpec, Sequence[Frame]], tuple[str, ...]] = _connectors_order
    """Returns the order columns of a new table. Raises OrderRefused if nothing orders its changes."""
    declared_order: Callable[[TableSpec], tuple[str, ...]] = lambda spec: spec.order_by
    """Returns the order columns that the settings give, as they write them; () if they give none. An existing table must have the same."""
    check_names: Callable[[TableSpec, Sequence[str], Sequence[str]], None] = lambda spec, order, paths: None
    """Raises OrderRefused if the order columns (second argument) need file names in a form that these paths do not have."""
    file_identity: Callable[[str], str | None] = lambda path: None
    """Returns what identifies the file at a path among all files of the table, or None if only its content does."""


DECODERS = {
    "change-event": Decoder(change_event.decode),
    "debezium": Decoder(debezium.decode),
    "dms": Decoder(dms.decode, order=dms.order, declared_order=dms.declared_order, check_names=dms.check_names, file_identity=dms.file_identity),
    "flat": Decoder(flat.decode, settle=flat.settle, order=flat.order),
    "full-load": Decoder(flat.decode, flat.settle_full_load, flat.full_load_order, flat.full_load_order),
    "wal2json": Decoder(wal2json.decode, order=wal2json.order),
}
"""The decoder of each envelope in `core/model/envelopes.py`."""
