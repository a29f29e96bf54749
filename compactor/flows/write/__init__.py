"""Verbs that change rows or columns: commit (and replay), compact, rebuild, restore, adopt. Each plans an Edit for `flows.transact`.

`state.py` has what a commit adds to an Edit.
"""
