"""Full loads (`envelope: full-load`) that are not whole.

A copy of which anything cannot be used is set aside whole: a row left out would look like a deleted one. `copy_changes` makes Changes of the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compactor.core.sources.quarantine import Unusable
from compactor.spark.input.files import Why
from compactor.spark.input.inputs import Inputs


class NotWhole(Exception):
    """Files (location → why) that cannot be used, because something of the copy they belong to cannot."""

    def __init__(self, files: Mapping[str, Why]) -> None:
        super().__init__(f"{len(files)} files of copies that are not whole")
        self.files = dict(files)


def check_files(opened: Inputs) -> None:
    """Raises NotWhole for the others of a copy of which a file cannot be opened."""
    _set_aside(opened, {item.path: opened.broken[place] for item, place in opened.places.items() if place in opened.broken})


def check_records(opened: Inputs, unusable: Sequence[Unusable]) -> None:
    """Raises NotWhole for the files of copies of which records cannot be used."""
    first: dict[str, Why] = {}
    for item in unusable:
        first.setdefault(item.path, Why(f"record {item.record}: {item.reason}" if item.record else item.reason))
    _set_aside(opened, first)


def _set_aside(opened: Inputs, why: Mapping[str, Why]) -> None:
    folders: dict[str, tuple[str, Why]] = {}
    for item in opened.inputs:
        # where one file is broken for good, waiting for the end of another would help nothing
        if item.path in why and (item.folder not in folders or not why[item.path].unfinished):
            folders[item.folder] = (item.path, why[item.path])
    found = {}
    for item, place in opened.places.items():
        if item.folder in folders and place not in opened.broken:
            path, reason = folders[item.folder]
            found[place] = why.get(item.path) or Why(f"belongs to a full copy that is not whole: {path}: {reason.text}", reason.unfinished)
    if found:
        raise NotWhole(found)
