"""Checks of a table of several shards: what compares Positions of different rows cannot be used with it."""

from __future__ import annotations

from collections.abc import Iterator

from compactor.config.keys import Table
from compactor.config.text import Place


def shard_problems(table: Table, shard: str) -> Iterator[tuple[Place, str]]:
    """Return the problems of a table whose `increments` names a shard; none if `shard` is ""."""
    if not shard:
        return
    if table.envelope in ("full-load", "dms"):
        yield ("envelope",), f"{table.envelope} has files of a whole table, not of a shard ({{{shard}}}); use a table for each shard"
    for name in ("epoch_replaces", "topic", "history", "live_view"):
        if getattr(table, name):
            yield (name,), f"excludes shards ({{{shard}}} in `increments`), whose positions do not compare; remove one of the two"
    if shard in (table.key or ()):
        yield ("key",), f"{shard} is the shard, which belongs to the key without being named; remove it"
