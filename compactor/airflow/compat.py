"""Names that Airflow has in another module, or not at all, in some versions from 3.0.6 on."""

from __future__ import annotations

try:
    from airflow.sdk import AsyncCallback, DeadlineAlert, DeadlineReference
    from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowRuntimeError, AirflowSkipException, DownstreamTasksSkipped
except ImportError:  # before 3.2
    from airflow.exceptions import AirflowException, AirflowFailException, AirflowSkipException, DownstreamTasksSkipped

    AirflowRuntimeError = AirflowException
    AsyncCallback = DeadlineAlert = DeadlineReference = None

try:
    from airflow.sdk import BaseHook
    from airflow.sdk.log import mask_secret
except ImportError:  # before 3.1
    from airflow.hooks.base import BaseHook
    from airflow.sdk.execution_time.secrets_masker import mask_secret

__all__ = [
    "AirflowException",
    "AirflowFailException",
    "AirflowRuntimeError",
    "AirflowSkipException",
    "AsyncCallback",
    "BaseHook",
    "DeadlineAlert",
    "DeadlineReference",
    "DownstreamTasksSkipped",
    "mask_secret",
]
