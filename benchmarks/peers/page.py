"""Write docs/performance.md and its plots from benchmarks/results/peers.json: `python -m benchmarks.peers.page`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers import plots
from benchmarks.peers.law import Day, Law, Results, commit, days, fitted, one
from benchmarks.peers.pins import CORES, MEMORY, NOT_MEASURED, SYSTEMS

RESULTS = Path(__file__).parents[1] / "results" / "peers.json"
MANY = RESULTS.with_name("many.json")
"""What benchmarks.many measured."""

FLEET = RESULTS.with_name("fleet.json")
"""What benchmarks.fleet measured."""

DEBEZIUM = RESULTS.with_name("debezium.json")
"""What benchmarks.debezium measured."""

DOCS = Path(__file__).parents[2] / "docs"
COPY_ON_WRITE = ("naive", "delta", "hudi-cow", "iceberg-cow", "duckdb", "delta-rs")
MILLION = 1_000_000
_SMALL = (MILLION, 10_000)


Ratio = Callable[[Results, int], "float | None"]
"""Returns a ratio at a number of rows; None where a measurement is missing."""


@dataclass(frozen=True)
class Target:
    """A ratio that was promised."""

    text: str
    limit: float
    ratio: Ratio
    rows: tuple[int, ...] = (10 * MILLION, MILLION)
    """Sizes, the promised one first. The first that was measured is shown."""
    why: str = ""
    """Explanation of a ratio over the limit."""


def _against(figure: Callable[[dict[str, Any]], float], ours: str, others: Sequence[str], changes: int = 10_000) -> Ratio:
    """Return a function: a figure of ours over the least of the others'."""

    def ratio(results: Results, rows: int) -> float | None:
        mine, theirs = one(results, ours, rows, changes), [each for other in others if (each := one(results, other, rows, changes))]
        return figure(mine) / min(map(figure, theirs)) if mine and theirs else None

    return ratio


def _commits(what: str, ours: str, others: Sequence[str], changes: int = 10_000) -> Ratio:
    """Return a function: our commit over the cheapest of the others."""
    return _against(lambda result: commit(result, what), ours, others, changes)


def _grown(what: str) -> Ratio:
    """Return a function: our commit over the same on a tenth of the rows."""

    def ratio(results: Results, rows: int) -> float | None:
        large, small = one(results, "compactor", rows, 10_000), one(results, "compactor", rows // 10, 10_000)
        return commit(large, what) / commit(small, what) if large and small else None

    return ratio


def _work(name: str, ours: str = "compactor") -> Ratio:
    """Return a function: the CPU seconds of our load, read or compact over the limits'."""
    return _against(lambda result: result[name]["cpu_seconds"], ours, ["limits"])


def _of(file: Path, over: Callable[[dict[str, Any]], float]) -> Ratio:
    """Return a function: a figure of what another benchmark measured, whatever the number of rows."""
    return lambda results, rows: over(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else None


TARGETS = (
    Target(
        "500 tables, the most expensive of `status`, `plan`, `check` and a run with nothing to do, CPU seconds",
        3.0,
        _of(FLEET, lambda result: max(result["cpu_seconds"].values())),
        (0,),
    ),
    Target(
        "the same on S3, listings a table",
        3.0,
        _of(FLEET, lambda result: max(requests.get("list_objects_v2", 0.0) for requests in result["requests_a_table"].values())),
        (0,),
    ),
    Target(
        "a run with nothing to do, 65 tables, CPU, against `status`; no JVM",
        2.0,
        _of(MANY, lambda found: found["many"]["idle"]["cpu_seconds"] / found["many"]["status"]["cpu_seconds"]),
        (0,),
    ),
    Target(
        "65 tables (six of 1 M rows, 59 of 100,000), 1,000 changes each, in one run, CPU, against plain Spark that reads, dedupes and writes the same",
        3.0,
        _of(MANY, lambda found: found["many"]["run"]["cpu_seconds"] / found["many"]["plain"]["cpu_seconds"]),
        (0,),
        "one CPU second a table, most of it for planning four jobs; the limit plans one",
    ),
    Target("peak memory of that run, GB", 3.0, _of(MANY, lambda found: found["many"]["peak_bytes"] / 1e9), (0,)),
    Target(
        "50 of 500 tables with work, CPU, against the 50 alone",
        1.3,
        _of(MANY, lambda found: found["few"]["among"]["cpu_seconds"] / found["few"]["alone"]["cpu_seconds"]),
        (0,),
    ),
    Target(
        "commit of 1,000 changes on 1 M rows, CPU, against plain Spark that reads, dedupes and writes the same changes",
        2.0,
        _commits("cpu_seconds", "compactor", ["limits"], 1_000),
        (MILLION,),
        "planning 0.6 CPU seconds, the JIT 0.6, tasks 0.2. The limit has one plan; a commit surveys, decodes, and merges with the Delta",
    ),
    Target(
        "commit of 10,000 changes on 10 M rows, CPU, against Paimon",
        1.5,
        _commits("cpu_seconds", "compactor", ["paimon"]),
        why="Paimon appends a sorted run in one job, and each reader merges the runs. A commit here looks for late events, unavailable values and "
        "key changes, and merges with the Delta, so that a view of plain SQL is right and costs less than Paimon's merge",
    ),
    Target("the same, bytes, against the copy-on-write peer that writes least", 0.1, _commits("bytes_written", "compactor", COPY_ON_WRITE)),
    Target(
        "a base, bytes, with `parquet: standard`, against Iceberg's",
        1.0,
        _against(lambda result: result["load"]["bytes_written"], "compactor-standard", ["iceberg-cow", "iceberg-mor"]),
        (MILLION,),
    ),
    Target("10,000 changes on 10 M rows against the same on 1 M, CPU", 1.2, _grown("cpu_seconds")),
    Target("the same, bytes", 1.2, _grown("bytes_written")),
    Target(
        "commit of 10,000 changes in Debezium's JSON, CPU, against plain Spark that parses them with the schema given, dedupes and writes",
        2.0,
        _of(DEBEZIUM, lambda found: found["compactor"]["cpu_seconds"] / found["plain"]["cpu_seconds"]),
        (0,),
        "tasks take a quarter, two fifths of that for parsing the records and for their types; the rest is the JIT's and the planner's",
    ),
    Target(
        "first load of 5 M rows, CPU, against dedupe, range partition, sort, write",
        1.4,
        _work("load"),
        (5 * MILLION, 10 * MILLION, MILLION),
        "one million rows, CPU seconds once warm: survey 1.4, types 0.4, decoding 0.7, resolving 2.0, writing 1.9; the JIT 7.5",
    ),
    Target(
        "compaction of everything, CPU, against scan and write of the base",
        2.0,
        _work("compact"),
        why="once warm, tasks take 2.5 CPU microseconds a row, those of the limit 1.2: each row is compared with the Delta's keys, and its clocks are read "
        "and written; the JIT 1.5 to 4 CPU seconds",
    ),
    Target(
        "aggregate of all rows through the view after 3 hours, CPU, against a bare scan",
        1.4,
        _work("read"),
        why="changed keys are all over the table, so every Segment is compared with the Delta: 0.13 CPU microseconds a row. Paimon's merge costs more",
    ),
    Target("the same through `<table>_ro`", 1.05, _work("read", "compactor-ro")),
    Target(
        "history commit of 10,000 changes on 1 M rows, CPU, against the plain commit",
        2.0,
        _commits("cpu_seconds", "compactor-history", ["compactor"]),
        (MILLION,),
        "two more jobs, which find and write the versions; the plain commit became cheaper, too",
    ),
)


def stored() -> list[dict[str, Any]]:
    """Return the measurements that are kept."""
    results: list[dict[str, Any]] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    return results


def targets_table(results: Results) -> Iterator[str]:
    """Yield the table of targets."""
    yield "| target | at most | measured | at rows | met | why not |"
    yield "|---|---:|---:|---:|---|---|"
    for target in TARGETS:
        ratios = ((rows, target.ratio(results, rows)) for rows in target.rows)
        rows, ratio = next(((rows, ratio) for rows, ratio in ratios if ratio is not None), (0, None))
        if ratio is None:
            yield f"| {target.text} | {target.limit} | | | not measured yet | |"
        else:
            met = ratio <= target.limit
            yield f"| {target.text} | {target.limit} | {ratio:.2f} | {f'{rows:,}' if rows else ''} | {'yes' if met else '**no**'} | {'' if met else target.why} |"


def systems_table(results: Results) -> Iterator[str]:
    """Yield a table of all systems at one size."""
    yield "| system | load: CPU s | MB | commit: CPU s | wall s | MB in each hour | read: CPU s | compaction: CPU s |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for each in results:
        hours = ", ".join(f"{cost['bytes_written'] / 1e6:.2f}" for cost in each["commits"])
        compact = f"{each['compact']['cpu_seconds']:.1f}" if "compact" in each else ""
        yield (
            f"| {each['system']} | {each['load']['cpu_seconds']:.1f} | {each['load']['bytes_written'] / 1e6:.1f} | {commit(each, 'cpu_seconds'):.1f} | "
            f"{commit(each, 'seconds'):.1f} | {hours} | {each['read']['cpu_seconds']:.2f} | {compact} |"
        )


def law_table(results: Results, law: Law) -> Iterator[str]:
    """Yield the measured points of compactor and the law's value for each."""
    yield "| rows *N* | changes *C* | CPU s measured | CPU s by the law | MB in hour 1 measured | by the law |"
    yield "|---:|---:|---:|---:|---:|---:|"
    for each in results:
        if each["system"] == "compactor" and each["commits"]:
            changes = each["changes"]
            yield (
                f"| {each['rows']:,} | {changes:,} | {commit(each, 'cpu_seconds'):.2f} | {law.commit(changes, changes):.2f} | "
                f"{each['commits'][0]['bytes_written'] / 1e6:.3f} | {law.delta_bytes * changes / 1e6:.3f} |"
            )


def simulation_table(simulation: Sequence[Day]) -> Iterator[str]:
    """Yield the simulated days."""
    yield "| tables | together | compactor: CPU hours a day | written a day | naive recipe: CPU hours a day | written a day |"
    yield "|---:|---:|---:|---:|---:|---:|"
    for day in simulation:
        yield (
            f"| {day.tables} | {plots.number(day.stored)}B | {day.cpu_seconds / 3600:,.1f} | {plots.number(day.bytes_written)}B | "
            f"{day.naive_cpu_seconds / 3600:,.0f} | {plots.number(day.naive_bytes_written)}B |"
        )


def images(results: Results) -> dict[str, str]:
    """Return the plots: name of the file → SVG."""
    small = [each for each in results if (each["rows"], each["changes"]) == _SMALL]
    size = "10,000 changes on 1 M rows"
    drawings = {
        "performance-cpu.svg": plots.bars(f"CPU seconds of a commit: {size}", [(each["system"], commit(each, "cpu_seconds")) for each in small]),
        "performance-bytes.svg": plots.bars(f"Bytes of a commit: {size}", [(each["system"], commit(each, "bytes_written")) for each in small]),
    }
    if law := fitted(results):
        dots = {
            label: [(each["rows"], commit(each, "cpu_seconds")) for each in results if each["system"] == name and each["changes"] == 10_000]
            for label, name in (("compactor", "compactor"), ("naive recipe", "naive"))
        }
        rows = [10.0**power for power in range(5, 9)]
        curves = {"compactor": [(n, law.commit(10_000, 10_000)) for n in rows], "naive recipe": [(n, law.naive * n) for n in rows]}
        drawings["performance-rows.svg"] = plots.lines("CPU seconds of a commit of 10,000 changes: law and measured points", "rows", curves, dots)
        simulation = list(days(law))
        written = {
            "compactor": [(day.stored, day.bytes_written) for day in simulation],
            "naive recipe": [(day.stored, day.naive_bytes_written) for day in simulation],
        }
        drawings["performance-simulation.svg"] = plots.lines("Simulation: bytes written a day", "bytes of all tables", written, {})
    return drawings


def text(results: Results) -> str:
    """Return the page."""
    sizes = sorted({(each["rows"], each["changes"]) for each in results}, key=lambda size: (size != _SMALL, size))
    tables = []
    for rows, changes in sizes:
        same = [each for each in results if (each["rows"], each["changes"]) == (rows, changes)]
        hours = max(len(each["commits"]) for each in same)
        tables += [f"### {rows:,} rows, {hours} hours of {changes:,} changes", "", *systems_table(same), ""]
    dates, loads = sorted({each["date"] for each in results}), [each["machine"]["load"] for each in results]
    machine = results[0]["machine"]
    head, rest = (Path(__file__).parent / "page.md").read_text(encoding="utf-8").split("<!-- law -->\n")
    with_law, more = rest.split("<!-- more -->\n")
    measured = {each["system"] for each in results}
    missing = {**NOT_MEASURED, **{name: "not yet" for name in SYSTEMS if name not in measured}}
    law = fitted(results)
    page = head.format(
        targets="\n".join(targets_table(results)),
        tables="\n".join(tables).rstrip(),
        machine=f"{machine['cores']} cores, load average {min(loads):.0f} to {max(loads):.0f}, Python {machine['python']}, {dates[0]} to {dates[-1]}",
        cores=CORES,
        memory=MEMORY,
        systems="\n".join(f"| {name} | {pin.version or 'here'} | {pin.settings} |" for name, pin in SYSTEMS.items()),
        missing="\n".join(f"- {name}: {why}." for name, why in missing.items()),
        law=with_law.format(
            points="\n".join(law_table(results, law)),
            constants=law,
            micro=law.change * 1e6,
            rewritten=law.rewritten * 1e6,
            naive=law.naive * 1e6,
            simulation="\n".join(simulation_table(list(days(law)))),
        ).rstrip()
        if law
        else "Not measured yet: commits of two sizes, and one of the naive recipe.",
    )
    return page + more


def keep(file: Path, result: dict[str, Any]) -> None:
    """Keep what another benchmark measured, and write page and plots again."""
    file.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    write()


def write() -> None:
    """Write page and plots."""
    results = stored()
    (DOCS / "performance.md").write_text(text(results), encoding="utf-8")
    for name, drawing in images(results).items():
        (DOCS / "images" / name).write_text(drawing, encoding="utf-8")


if __name__ == "__main__":
    write()
