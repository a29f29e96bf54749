"""Raw frames become frames: rows without envelope, with operation, order and row images, still in the writer's types.

There is one module for each envelope: `debezium.py`, `flat.py`, `dms.py`, `wal2json.py`, `change_event.py`, `full_load.py`; `decoder.py` says which
functions an envelope provides, and `frame.py` which columns it returns. `foreign_base.py` does the same for a base that another tool stored.
`named.py` and `signatures.py` serve the envelopes whose records name their columns. `order.py` defines the order columns, `conversions.py` and
`pg_text.py` the conversion of values. Frames go on to `rows/`.
"""

from __future__ import annotations
