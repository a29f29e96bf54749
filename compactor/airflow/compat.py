"""Names that Airflow has in another module, or not at all, in some versions from 3.0.6 on."""

# ruff: noqa: F401
# mypy: implicit-reexport
from __future__ import annotations

from typing import Any

from airflow.sdk.exceptions import AirflowRuntimeError

try:
    from airflow.sdk import AsyncCallback, DeadlineAlert, DeadlineReference
    from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException, DownstreamTasksSkipped
except ImportError:  # before 3.2
    from airflow.exceptions import AirflowException, AirflowFailException, AirflowSkipException, DownstreamTasksSkipped

    AsyncCallback = DeadlineAlert = DeadlineReference = None

try:
    from airflow.sdk import BaseHook
    from airflow.sdk.log import mask_secret
except ImportError:  # before 3.1
    from airflow.hooks.base import BaseHook
    from airflow.sdk.execution_time.secrets_masker import mask_secret


def earlier_run(ti: Any) -> Any:
    """Return an earlier run of the task's DAG that is still active, or None. Airflow 3.0 knows none."""
    return ti.get_previous_dagrun(state="running") if hasattr(ti, "get_previous_dagrun") else None
