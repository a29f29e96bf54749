"""Verbs that change rows or columns: commit (and replay), compact, rebuild, restore, adopt. Each plans an Edit for `flows.transact`.

`state.py` has the State after a batch of inputs, `feed.py` the change feed's part of an Edit.
"""
