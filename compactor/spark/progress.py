"""Progress: how many tasks of a group of jobs have ended. A group has the name of a table; its jobs are those that the table's thread starts."""

from __future__ import annotations

from pyspark.sql import SparkSession

from compactor.core.results.reports import Tasks


def join_group(spark: SparkSession, group: str, doing: str) -> None:
    """Put all jobs that this thread starts from now on into a group. Spark's UI shows `doing` beside them."""
    spark.sparkContext.setJobGroup(group, doing)


def tasks(spark: SparkSession, group: str) -> Tasks | None:
    """Return the tasks of the group's running jobs, or None if none runs."""
    tracker = spark.sparkContext.statusTracker()
    running = set(tracker.getActiveJobsIds())
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group) if job in running]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    counted = [stage for stage in stages if stage is not None]
    if not counted:
        return None
    counts = [(stage.numCompletedTasks, stage.numActiveTasks, stage.numTasks) for stage in counted]
    return Tasks(*(sum(column) for column in zip(*counts)))
