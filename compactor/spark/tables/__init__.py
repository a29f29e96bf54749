"""The stored tables: base, Delta and feed files.

`table_writer.py` writes states, reads them back and checks them; `table_reader.py` reads a Snapshot as states. `feed.py` writes the change feed out
of two Snapshots. `compare.py` compares rows for `verify` and for differences between Snapshots.
"""
