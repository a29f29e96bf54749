"""Raw frames become frames: rows without envelope, with operation, order and row images, still in the writer's types.

There is one module for each envelope: `debezium.py`, `flat.py` (full loads too), `dms.py`, `wal2json.py`, `change_event.py`; `decoder.py` says which
functions an envelope provides, and `frame.py` which columns it returns. `foreign_base.py` does the same for a base that another tool stored.
`named.py` serves the envelopes whose records name their columns. `order.py` defines the order columns, `conversions.py` and `pg_text.py` the
conversion of values. Frames go on to `rows/`.
"""
