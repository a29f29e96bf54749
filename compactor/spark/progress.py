"""Progress: how many tasks of a group of jobs have ended. Each phase of the work on a table is a group; its jobs are those that the thread starts."""

from __future__ import annotations

from pyspark.sql import SparkSession

from compactor.core.results.reports import Tasks
from compactor.spark import failures


@failures.translating
def join_group(spark: SparkSession, group: str, description: str) -> None:
    """Put all jobs that this thread starts from now on into a group. Spark's UI shows the description beside them."""
    spark.sparkContext.setJobGroup(group, description)


def tasks(spark: SparkSession, group: str) -> Tasks | None:
    """Return the tasks of the group's jobs so far, or None if Spark has submitted none yet."""
    tracker = spark.sparkContext.statusTracker()
    jobs = tracker.getJobIdsForGroup(group)
    # asked after, or a job that starts in between would count as ended
    active = set(tracker.getActiveJobsIds())
    done = running = total = 0
    for job in jobs:
        info = tracker.getJobInfo(job)
        for number in info.stageIds if info is not None else ():
            stage = tracker.getStageInfo(number)
            if stage is not None:
                done += stage.numCompletedTasks
                running += stage.numActiveTasks
                # stages whose result another job had are never run
                total += stage.numTasks if job in active else stage.numCompletedTasks
    return Tasks(done, running, total) if total else None
