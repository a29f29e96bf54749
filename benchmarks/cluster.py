"""`python -m benchmarks.cluster`: a first load on a Spark cluster with one executor and with two, of one core each, and where its time goes.

The cluster is a standalone one on this machine: a master and two workers. The increments are JSON lines, which every sink writes. The second load of each
session is told; the first one compiles. `serial` is the time of stages that had a single task, which no second executor makes faster; what is neither in
`serial` nor in `parallel` is the driver's: planning, listing, committing. CPU seconds of tasks say the same on a machine that is busy with other work.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from pyspark.sql import SparkSession

from benchmarks.program import options, scratch, session
from benchmarks.table import Table, hour_text, load_query
from benchmarks.usage import measured
from tests.parts.cluster import cluster


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the figures as JSON."""
    parser = options(__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--files", type=int, default=8, help="files that land")
    parser.add_argument("--segments", type=int, default=8, help="about how many Segments the base gets")
    parser.add_argument("--small-batch", type=int, default=64 << 20, help="bytes of input that one task reads and resolves")
    given = parser.parse_args(arguments)
    with scratch(given) as directory, cluster(directory) as running:
        os.environ.update(running.environment)
        found = {}
        for executors in (1, 2):
            root = directory / f"executors-{executors}"
            conf = (("spark.cores.max", str(executors)), ("spark.sql.shuffle.partitions", "4"))
            with session(root, conf=conf) as spark:
                # a row is 41 bytes of Parquet
                settings = {"target_file_bytes": max(1, 41 * given.rows // given.segments), "small_batch": given.small_batch}
                for name in ("warm", "told"):
                    table = Table(spark, root, given.rows, name, **settings)
                    landing = Path(table.spec.landing) / f"increment_{hour_text(0)}"
                    spark.sql(load_query(given.rows)).repartition(given.files).write.json(str(landing))
                    known = {stage["id"] for stage in stages(spark)}
                    _, cost = measured(table.run)
                made = [stage for stage in stages(spark) if stage["id"] not in known]
                segments = len(table.snapshot().segments)
            told: dict[str, Any] = {"seconds": round(cost.seconds, 1), "cpu_seconds": round(cost.cpu_seconds, 1), "segments": segments}
            for kind, chosen in (("serial", [stage for stage in made if stage["tasks"] == 1]), ("parallel", [s for s in made if s["tasks"] > 1])):
                told[kind] = {name: round(sum(stage[name] for stage in chosen), 1) for name in ("seconds", "cpu_seconds")}
            found[str(executors)] = {**told, "stages": made}
    faster = found["1"]["seconds"] / found["2"]["seconds"]
    print(json.dumps({**vars(given), "load": os.getloadavg()[0], "executors": found, "times as fast": round(faster, 2)}, indent=2))
    return 0


def stages(spark: SparkSession) -> list[dict[str, Any]]:
    """Return the stages that Spark has run so far: tasks, seconds from the first task to the end, CPU seconds of the tasks."""
    context: Any = spark.sparkContext._jsc
    # Spark's store gets its events through a queue
    context.sc().listenerBus().waitUntilEmpty(60_000)
    jvm, gateway = cast(Any, spark._jvm), cast(Any, spark.sparkContext._gateway)
    nothing = jvm.java.util.ArrayList()
    listed = context.sc().statusStore().stageList(nothing, False, False, gateway.new_array(jvm.double, 0), nothing)
    found = []
    for stage in (listed.apply(at) for at in range(listed.size())):
        if stage.firstTaskLaunchedTime().isDefined() and stage.completionTime().isDefined():
            seconds = (stage.completionTime().get().getTime() - stage.firstTaskLaunchedTime().get().getTime()) / 1000
            name, cpu = os.path.basename(stage.name()), round(stage.executorCpuTime() / 1e9, 3)
            found.append({"id": stage.stageId(), "name": name, "tasks": stage.numTasks(), "seconds": seconds, "cpu_seconds": cpu})
    return sorted(found, key=lambda stage: int(stage["id"]))


if __name__ == "__main__":
    sys.exit(main())
