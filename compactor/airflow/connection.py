"""AWS credentials from an Airflow connection (`airflow: {aws_conn_id: ..}`) instead of the environment of the workers and the triggerer."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from compactor.core.model.errors import Refused

try:
    from airflow.sdk.exceptions import AirflowException, AirflowRuntimeError
except ImportError:  # before Airflow 3.2
    from airflow.exceptions import AirflowException

    AirflowRuntimeError = AirflowException

if TYPE_CHECKING:
    from compactor.config.settings import Settings

_lock = threading.Lock()
_sessions: dict[str, Any] = {}


def use(settings: Settings) -> None:
    """Give every AWS client of this process the credentials of the connection. Without `aws_conn_id`: those that AWS's standard chain finds.

    Raises Refused if another configuration in the same process has another connection: a process has one.
    """
    name = settings.airflow.aws_conn_id
    with _lock:
        if name is None and not _sessions:
            return
        if _sessions and name not in _sessions:
            raise Refused(f"key airflow.aws_conn_id: expected {next(iter(_sessions))}, as another configuration of this Airflow has; found {name}")
        if name is not None and not _sessions:
            from compactor.app.base import use_aws_session

            # it renews the credentials of a role that the connection assumes
            _sessions[name] = _session(name)
            use_aws_session(_sessions[name])


def export() -> None:
    """Give the credentials to the processes that this task starts. They do not renew them."""
    for session in _sessions.values():
        credentials = session.get_credentials()
        if credentials is None:
            continue
        frozen = credentials.get_frozen_credentials()
        variables = {
            "AWS_ACCESS_KEY_ID": frozen.access_key,
            "AWS_SECRET_ACCESS_KEY": frozen.secret_key,
            "AWS_SESSION_TOKEN": frozen.token,
            "AWS_DEFAULT_REGION": session.region_name,
        }
        for variable, value in variables.items():
            if value is not None:
                os.environ[variable] = value
            elif variable == "AWS_SESSION_TOKEN":
                os.environ.pop(variable, None)


def _session(name: str) -> Any:
    try:
        from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook
    except ImportError:
        raise Refused("`airflow: {aws_conn_id: ..}` needs the provider: pip install apache-airflow-providers-amazon") from None
    try:
        # without the connection the provider would take the worker's credentials
        AwsBaseHook.get_connection(name)
    except (AirflowException, AirflowRuntimeError) as error:
        raise Refused(f"key airflow.aws_conn_id: Airflow has no connection {name} ({error})") from None
    return AwsBaseHook(aws_conn_id=name, client_type="sts").get_session()
