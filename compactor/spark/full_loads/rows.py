"""Full loads (`envelope: full-load`) that are not whole.

A copy of which anything cannot be used is set aside whole: a row left out would look like a deleted one. `copy_changes` makes Changes of the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compactor.core.sources.quarantine import Unusable
from compactor.spark.input.files import Problem
from compactor.spark.input.inputs import Inputs


class NotWhole(Exception):
    """Files (location → why) that cannot be used, because something of the copy they belong to cannot."""

    def __init__(self, files: Mapping[str, Problem]) -> None:
        super().__init__(f"{len(files)} files of copies that are not whole")
        self.files = dict(files)


def check_files(opened: Inputs) -> None:
    """Raises NotWhole for the others of a copy of which a file cannot be opened."""
    _set_aside(opened, {item.path: opened.unreadable[place] for item, place in opened.places.items() if place in opened.unreadable})


def check_records(opened: Inputs, unusable: Sequence[Unusable]) -> None:
    """Raises NotWhole for the files of copies of which records cannot be used."""
    first: dict[str, Problem] = {}
    for item in unusable:
        first.setdefault(item.path, Problem(f"record {item.record}: {item.reason}" if item.record else item.reason))
    _set_aside(opened, first)


def _set_aside(opened: Inputs, why: Mapping[str, Problem]) -> None:
    folders: dict[str, tuple[str, Problem]] = {}
    for item in opened.inputs:
        # where one file is broken for good, waiting for the end of another would help nothing
        if item.path in why and (item.folder not in folders or not why[item.path].unfinished):
            folders[item.folder] = (item.path, why[item.path])
    found = {}
    for item, place in opened.places.items():
        if item.folder in folders and place not in opened.unreadable:
            path, reason = folders[item.folder]
            found[place] = why.get(item.path) or Problem(f"belongs to a full copy that is not whole: {path}: {reason.text}", reason.unfinished)
    if found:
        raise NotWhole(found)
