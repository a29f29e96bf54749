"""Envelopes: how a source wraps the rows it sends, as values with capabilities. Code asks for a capability, never for an envelope's name.

A new envelope needs an entry in `ENVELOPES` here, a decoder in `spark/decode/`, and that decoder's entry in `spark/decode/decoder.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

FILE_FORMATS = ("auto", "parquet", "avro", "json", "csv")
BESIDE_VALUES = ("*+*+[0-9]*.keys.*", "*+*+[0-9]*.headers.*")
"""Files that Kafka Connect's S3 sink writes beside those of the values, as `<topic>+<partition>+<offset>.keys.json`."""


@dataclass(frozen=True)
class Envelope:
    """What a source that uses this envelope can do. The defaults describe change events in a wrapper, such as Debezium's."""

    name: str
    """The value of `envelope:` in the configuration."""
    plain_rows: bool = False
    """A record is a row of the table, with nothing around it. Only such records fit into CSV; order columns are columns of the row first."""
    several_events: bool = False
    full_loads: bool = False
    """Each folder is one full load: all rows of the table at that hour. It is taken whole or not at all, and compared with the load before it."""
    load_files: bool = False
    """Files of a full load are named LOAD.., lie beside the dated folders and come before all changes. A second load reuses their names."""
    from_connector: bool = False
    """Debezium's connectors write the records: the connector decides the default order, and a table without key has no record key."""
    record_key: bool = False
    """The key of the Kafka record around a value has the columns of the table's key."""
    order_columns: bool = False
    """Only columns of the row order the changes, so that `order_by` must name them unless the row has a connector's metadata columns."""
    before_image: bool = True
    """Changes may carry the row as it was before. Without it a table without key takes inserts only."""
    live_view: bool = False
    """The live view can read the landed files, if they are Parquet or Avro."""
    own_settings: frozenset[str] = frozenset()
    """Settings of a table that only some envelopes have, and this one accepts (see `SPECIAL_SETTINGS`)."""
    refused_settings: tuple[tuple[str, str], ...] = ()
    """Settings that every other envelope accepts and this one does not, each with the reason."""
    formats: tuple[str, ...] = FILE_FORMATS
    csv_header: bool = True
    """CSV files begin with the names of their columns, unless `csv: {header: ..}` or `csv: {columns: ..}` is set."""
    csv_null: str = ""
    """The unquoted CSV text that stands for null, unless `csv: {null_value: ..}` is set."""
    operation_column: str | None = "Op"
    """The column of CSV files that holds the operation, unless `op:` names another. None: there is none."""
    unnamed_operation: bool = False
    """In CSV files without header the operation is the first value, and `csv: {columns: ..}` does not name it."""
    before_prefix: str = ""
    """A column with this prefix holds the value before the change of the column named behind the prefix. Empty: there are none."""
    one_stream: bool = False
    """One process writes all files of a table in the order of commits, so that no other part of the changes can be behind."""
    max_gone: float = 1.0
    """The largest share of rows that one run may remove, unless `max_gone` is set."""


SPECIAL_SETTINGS = ("op", "op_map", "delete_when", "metadata_columns", "patch_rows", "complete")
"""Settings of a table that only some envelopes accept (`Envelope.own_settings`)."""
_WRAPPED = ("auto", "parquet", "avro", "json")
_IN_ORDER_OF_FOLDERS = "full loads are plain rows that come in the order of their folders; leave it out"
_ALL = (
    Envelope(
        "flat",
        plain_rows=True,
        record_key=True,
        order_columns=True,
        before_image=False,
        live_view=True,
        own_settings=frozenset({"op", "op_map", "delete_when", "metadata_columns", "patch_rows"}),
    ),
    Envelope("debezium", from_connector=True, record_key=True, formats=_WRAPPED),
    Envelope("wal2json", several_events=True, formats=_WRAPPED),
    Envelope(
        "dms",
        plain_rows=True,
        load_files=True,
        own_settings=frozenset({"metadata_columns"}),
        refused_settings=(
            ("container", "DMS writes rows, not Kafka records; leave it out"),
            ("source_table", "DMS has a folder for each table; set it with `increments:`"),
        ),
        formats=("auto", "parquet", "csv"),
        csv_header=False,
        csv_null="NULL",
        unnamed_operation=True,
        before_prefix="BI_",
        one_stream=True,
    ),
    Envelope("change-event", several_events=True, formats=_WRAPPED),
    Envelope(
        "full-load",
        plain_rows=True,
        full_loads=True,
        before_image=False,
        own_settings=frozenset({"complete"}),
        refused_settings=(
            *((name, _IN_ORDER_OF_FOLDERS) for name in ("order_by", "epoch", "topic", "source_table")),
            ("container", "full loads are plain rows, not Kafka records; leave it out"),
        ),
        operation_column=None,
        max_gone=0.3,
    ),
)
ENVELOPES = {envelope.name: envelope for envelope in _ALL}


def accepting(setting: str) -> str:
    """Return the names of the envelopes that accept a special setting, for error messages.

    >>> accepting("metadata_columns")
    'flat or dms'
    """
    return " or ".join(envelope.name for envelope in _ALL if setting in envelope.own_settings)
