"""Links from a task to its job on EMR: Spark's UI, the cluster's page, and the job's log in S3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey


SPARK_UI = "Spark UI"
"""Name of the page that a job has only when it runs."""


class _JobLink(BaseOperatorLink):
    """A page about the job of a task. Airflow asks for it when the task is deferred and when it ends."""

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Return the address; "" if the task has no job, or the page is not known."""
        return str(operator.links.get(self.name, ""))


class SparkUiLink(_JobLink):
    """Spark's UI of a job on EMR Serverless. EMR opens it for an hour."""

    name = SPARK_UI


class EmrConsoleLink(_JobLink):
    """The page of the EMR cluster."""

    name = "EMR console"


class LogLink(_JobLink):
    """The folder with the job's log and report."""

    name = "Log"


LINKS = (SparkUiLink(), EmrConsoleLink(), LogLink())
"""Links of every task that may run on EMR."""
