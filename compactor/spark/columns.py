"""The internal columns of the DataFrames: one name, one type, one meaning each.

A row passes through four shapes. Each step says in its docstring which shape it takes and which it returns.

| shape | made by | columns |
|---|---|---|
| raw frame | `input/` | FILE, BLOCK, ROW, then TEXT or VALUE, UNREADABLE, and those of the Kafka container |
| frame | `decode/` | FILE, BLOCK, ROW, TEXT, OP, INVALID, WRITER, SCHEMA, AFTER, BEFORE, RECORD_KEY, OLD_KEY, SOURCE, TIME, EVENT, NAMED |
| Changes | `rows/conform.py` | the table's stored columns, then CHANGE |
| states | `rows/reduce.py` | the table's stored columns, then STATE, ORIGIN, BEHIND |

Constants are used where a name stands alone in Python. Inside longer SQL the plain name stays, so that the SQL can be read. The columns of the
history while it is computed begin with two underscores; `history/versions.py` lists them.
"""

from __future__ import annotations

FILE = "_file"  # string: the path of the input below the landing root
BLOCK = "_block"  # bigint: the offset of the file's block that holds the record. BLOCK and ROW order the records of a file
ROW = "_row"  # bigint: the place of the record inside its block. It begins anywhere; `survey.record_numbers` returns the number in the file
TEXT = "_text"  # string: the record as the file holds it, for text formats. Reports of invalid records quote it
VALUE = "_value"  # struct: the record, for formats with columns (Parquet, Avro, CSV)
# string: why a raw record cannot be decoded, else null. Only some formats have the column; `RawFrame.unreadable` gives SQL for all.
UNREADABLE = "_unreadable"

# ---- the container (`container: kafka`); null for others --------------------------------------------------------------------

OFFSET = "_offset"  # bigint: the Kafka offset
PARTITION = "_partition"  # int: the Kafka partition
PLACE = (FILE, BLOCK, ROW, OFFSET, PARTITION)  # Where a record came from. Decoders hand these columns on as they are
KEY = "_key"  # string: the key of the Kafka record, as text or JSON
OLD_KEY = "_old_key"  # string: JSON of the key that this row had before, out of Debezium's header `__debezium.oldkey`
WIRE = "_wire"  # binary: the value of the record, when it is in Confluent's wire format. Dropped by `input/kafka.py`
KEY_WIRE = "_key_wire"  # binary: the key of the record, when it is in Confluent's wire format. Dropped by `input/kafka.py`

# ---- decoded records --------------------------------------------------------------------------------------------------------

# string: c (create), u (update), d (delete), r (read by a snapshot), t (truncate), null for a record without a row of this table.
# Tables without key also have x (removal of one equal row). Stored rows have no operation: a tombstone has GONE.
OP = "_op"
DELETES = "_deletes"  # boolean: whether the condition of `delete_when` makes the row a delete. Only then there; dropped by `decode/flat.py`
# string: of a tombstone that counts as ignored, the column with the operation of the rows beside it. Only then there (`decode/flat.py`).
LEFT_OUT = "_left_out"
INVALID = "_invalid"  # string: why the record goes to quarantine, else null
WRITER = "_writer"  # string: the id of the WriterSchema of AFTER
SCHEMA = "_schema"  # string: the text of that schema, where the record carries it (Connect JSON; records that name their columns)
AFTER = "_after"  # The row after the change: a struct, or JSON text until `Frame.parsed`
BEFORE = "_before"  # The row before the change, of the same type as AFTER; null where the source does not send it
RECORD_KEY = "_record_key"  # string: JSON of the record's key. Used when the row itself has no value for a key column
SOURCE = "_source"  # struct: fields of the envelope that order and identify events (`decode/order.py`)
TIME = "_time"  # bigint: the commit time at the source, microseconds since 1970
EVENT = "_event"  # int: the number of the event inside its record, where one record can hold several events
NAMED = "_named"  # array<string>: the columns that the record names, for envelopes whose records name their columns; null for a delete

# ---- Changes ----------------------------------------------------------------------------------------------------------------

POSITION = "_position"  # struct: the place of the event in the source's order (`rows/position.py`)
MISSING = "_missing"  # array<string>: stored columns whose value the event does not carry (unavailable, not null)
FROM = "_from"  # string: the key this row had before a key change, as `keys.key_text`; null without a key change
TO = "_to"  # string: of a delete, the key under which its row lives on. `TableReader.link_key_changes` fills it
LINK = "_link"  # string: transaction and LSN, which both halves of a key change share; null where the source sends none
MISTYPED = "_mistyped"  # string: the first stored column whose value is not of the column's type, else null
ORIGIN = "_origin"  # int: where a state comes from: `reduce.EVENT`, MADE, DELTA or BASE
# The internal columns of Changes. With `history: true` they also have TIME.
CHANGE = (OP, POSITION, MISSING, FROM, TO, LINK, MISTYPED, ORIGIN, FILE, PARTITION)

# ---- states -----------------------------------------------------------------------------------------------------------------

VERSION = "_version"  # bigint: the version of the table that last changed the row
AT = "_at"  # struct: the Position of the newest event of the key that is no delete; of a tombstone, of the row that it hides. Null if there is none
GONE = "_gone"  # struct: of a tombstone, the Position of the delete; null for a row that is shown
# map: column → Position, and whether a value is known, for columns whose value is not of `_at` (`position.own_ddl`). Null in nearly all rows.
OWN = "_own"
# string: of a tombstone, the key under which its row lives on; of a row whose create lacked values, the key that it had before. LINK_MARK + LINK
# while that is not known. Of tables without key: `keyless.REMOVAL` or `keyless.MATCHED`. Null in nearly all rows.
MOVED = "_moved"
STATE = (VERSION, AT, GONE, OWN, MOVED)  # The internal columns that base and Delta files store, after the table's columns
BEHIND = "_behind"  # boolean: of an event: whether its key may have had a tombstone that was purged (`rows/position.py`)
UNCHANGED = "_unchanged"  # boolean: of a reduced row, whether it is stored as it is
# string: the name of the Segment that a row is written into, where a base of several is written (`tables/segments.py`). No stored column has this
# name there: payload columns that collide with internal ones are renamed.
SEGMENT = "segment"
LINK_MARK = "#"  # Begins a MOVED that holds no key yet, but the LINK that the other half of the key change will bring
