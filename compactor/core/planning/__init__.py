"""Decisions as pure functions over values: which landed files to take (`landing`), when to compact which Segments (`compaction`), and which
Snapshots and files to keep (`retention`). The flows read the store, ask here, and carry out the answer.
"""
