"""What is done with a table: its verbs, in folders by what they do to it.

A flow takes a `Table` (environment and TableSpec) and uses the outside through `compactor.ports`.

`table.py` reads Snapshots. `transact.py` is the only way to write one: it asks a verb for an Edit, applies it to the newest Snapshot and puts the
result. `run.py` puts the verbs of an hour together: resume, commit, compact, publish, archive.
"""
