"""The history of a table (`history: true`): all versions of every row, with the time from and to which each was valid.

`commit.py` takes the Changes of a resolved batch and looks up the stored events of its keys. `versions.py` merges both and computes the versions.
`parts.py` reads and writes the files, also anew without erased keys. `plan.py` decides how a
commit writes, and the time of each event; `check.py` is for `verify`.
"""
