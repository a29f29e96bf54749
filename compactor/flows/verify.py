"""Verify: does what is stored, shown and recorded agree?

Without a JVM: the files of the Snapshot are there with the right sizes, segments tile the keys, every commit's counts add up, no input is
both absorbed and new, every absorbed input is in the archive or in landing. With one: the view's rows equal the reference definition
(union, newest row per key), and equal what a single resolve of everything ever absorbed gives.
"""

from __future__ import annotations

import dataclasses

from compactor.core import plan
from compactor.core.snapshot import COUNTS, LATER, DataFile, Input, Snapshot
from compactor.core.spec import TableSpec
from compactor.flows import archive, discover, ledger, snapshots
from compactor.flows.reports import Check
from compactor.flows.world import World


def verify(world: World, spec: TableSpec) -> list[Check]:
    """All checks that can be made; a table without a Snapshot has one that says so."""
    snapshot = snapshots.newest(world, snapshots.layout_of(spec))
    if snapshot is None:
        return [Check(spec.name, "snapshot", True, "nothing committed yet")]
    checks = [_files(world, spec, snapshot), _tiling(spec, snapshot), _counts(world, spec), _inputs(world, spec, snapshot)]
    if not world.files_only:
        checks += world.engine().compare(spec, snapshot, *_absorbed(world, spec, snapshot))
    return checks


def _files(world: World, spec: TableSpec, snapshot: Snapshot) -> Check:
    layout = snapshots.layout_of(spec)
    named: list[tuple[str, DataFile]] = [(segment.path, file) for segment in snapshot.segments for file in segment.files]
    named += [(snapshot.delta.path, file) for file in snapshot.delta.files] if snapshot.delta else []
    problems = []
    for path, file in named:
        found = world.storage.stat(f"{layout.inside(path)}/{file.name}")
        if found is None or found.size != file.size:
            problems.append(f"{path}/{file.name}: expected {file.size} bytes, found {found.size if found else 'nothing'}")
    return Check(spec.name, "files", not problems, "; ".join(problems[:3]) or f"{len(named)} files, {snapshot.size:,} bytes")


def _tiling(spec: TableSpec, snapshot: Snapshot) -> Check:
    problem = plan.tiling_problem(snapshot.segments)
    return Check(spec.name, "segments", problem is None, problem or f"{len(snapshot.segments)} segments tile the keys")


def _counts(world: World, spec: TableSpec) -> Check:
    wrong, read = [], 0
    for snapshot in snapshots.history(world, snapshots.layout_of(spec)):
        total = sum(snapshot.counts.get(name, 0) for name in COUNTS)
        read += snapshot.counts.get("read", 0)
        if snapshot.counts and total != snapshot.counts["read"]:
            wrong.append(f"version {snapshot.version}: read {snapshot.counts['read']}, accounted for {total}")
    return Check(spec.name, "counts", not wrong, "; ".join(wrong[:3]) or f"{read:,} events accounted for")


def _inputs(world: World, spec: TableSpec, snapshot: Snapshot) -> Check:
    layout = snapshots.layout_of(spec)
    known = ledger.everything(world, layout, snapshot)
    landing = discover.landing(world, spec, snapshot)
    first = [item for item in known if item.outcome not in LATER]
    twice = len(first) - len({(item.path, item.etag) for item in first})
    lost = [item.path for item in first if archive.place(world, spec, item) is None]
    problems = [f"{twice} inputs are in the ledger twice"] if twice else []
    problems += [f"{len(lost)} absorbed files are neither in landing nor in archive or quarantine, such as {lost[0]}"] if lost else []
    return Check(spec.name, "inputs", not problems, "; ".join(problems) or f"{len(known)} absorbed, {len(landing.new)} waiting")


def _absorbed(world: World, spec: TableSpec, snapshot: Snapshot) -> tuple[list[Input], dict[tuple[str, str], str]]:
    """The inputs whose rows are in the table, each once, and where they lie."""
    entries = ledger.everything(world, snapshots.layout_of(spec), snapshot)
    known = {(item.path, item.etag): item for item in entries}
    repaired_once = {(item.path, item.etag) for item in entries if item.outcome == "reread"}
    inputs = [item for item in known.values() if not item.unabsorbed]
    places = {(item.path, item.etag): archive.place(world, spec, item) for item in inputs}
    found = {key: place for key, place in places.items() if place}
    inputs = [item for item in inputs if (item.path, item.etag) in found]
    for item in [item for item in inputs if (item.path, item.etag) in repaired_once]:
        # a repaired copy may hold the repaired records only: what was absorbed before it is in the original
        layout = snapshots.layout_of(spec)
        original, repaired = layout.archived(item.path), layout.archived(item.path, item.etag)
        if found[item.path, item.etag] == repaired and world.storage.stat(original) is not None:
            inputs.append(dataclasses.replace(item, etag=f"{item.etag}~original"))
            found[item.path, f"{item.etag}~original"] = original
    return inputs, found
