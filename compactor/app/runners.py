"""The part of the App that starts command lines: in a process on this machine, or as a job on EMR."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from compactor.app.base import AppBase
from compactor.app.metrics import account
from compactor.config.keys import Emr
from compactor.config.values import absolute
from compactor.core.model.errors import Refused
from compactor.core.results.record import JobUsage
from compactor.core.settings.aws import ClientConfig
from compactor.ports import RemoteRunner, Runner, Submitted
from compactor.runners.local import LocalRunner


class Runners(AppBase):
    """Make the runners of command lines."""

    def runner(self) -> Runner:
        """Return a runner that starts one command line on this machine."""
        program, *more = self.settings.airflow.command or (sys.executable, "-m", "compactor")
        folder = str(self.settings.file.parent)
        return LocalRunner((absolute(program, folder) if "/" in program else program, *more), ("--config", str(self.settings.file)))

    def finished(self, output: str, usage: Callable[[], JobUsage | None]) -> None:
        """Add the usage of a job on a cluster to its run records, and send the measures of its tables. `output`: what its `run` printed.

        Errors are only logged.
        """
        account(self, output, usage)

    def remote_runner(self, names: Sequence[str], attempt: str = "", group: str = "", seconds: float = 0.0) -> RemoteRunner | None:
        """Return the runner that sends one command line of these tables to EMR, or None if they run on this machine.

        The tables have the same `runner` and `spark`. `attempt` identifies the try: the same attempt again finds the job that it submitted before
        (see `EmrRunner`). `group`: the Airflow group, for the job's name and tags. `seconds`: time limit of the job; default the longest `timeout`.
        """
        kind, emr = self.settings.tables[names[0]].runner, self.settings.emr
        if kind == "local":
            return None
        tables = [self.settings.tables[name] for name in names]
        group = group or tables[0].group
        subject = names[0] if len(names) == 1 else f"{group} ({len(names)} tables): {', '.join(names)}"
        tags = {"compactor-group": group, "compactor-table": names[0] if len(names) == 1 else ""}
        sending = {
            "conf": tuple(tables[0].spark.items()),
            "seconds": seconds or max(table.timeout for table in tables),
            "subject": subject,
            "tags": tuple((name, value) for name, value in tags.items() if value),
        }
        return self._emr_runner(kind, emr, lambda: self.job_config(names, schemas=True).written(), attempt, **sending)

    def submitted_runner(self, submitted: Submitted) -> RemoteRunner:
        """Return the runner of a job where it was submitted, whatever the configuration has by now."""
        return self._emr_runner(submitted.runner, Emr(**submitted.emr))

    def _emr_runner(self, kind: str, emr: Emr, job_config: Callable[[], bytes] = bytes, attempt: str = "", **sending: Any) -> RemoteRunner:
        try:
            from compactor.runners.emr import ClusterSteps, EmrRunner, Sending, ServerlessJobs
            from compactor.storage.s3.storage import S3Storage
        except ImportError:
            raise Refused(f"runner {kind} needs boto3: pip install boto3") from None
        client, settings = ClientConfig(self.settings.region), Sending(str(emr.job), str(emr.logs), **sending)
        serverless = kind == "emr-serverless"
        jobs = ServerlessJobs(str(emr.application), str(emr.role), client) if serverless else ClusterSteps(str(emr.cluster), client)
        return EmrRunner(jobs, settings, S3Storage(settings.plans, self.settings.s3_keys), job_config, attempt)
