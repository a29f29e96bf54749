"""Credentials from Airflow connections instead of the environment of the workers and the triggerer.

`airflow.aws_conn_id` gives the session of every AWS client. The connections of `conn_ids` fill environment variables, so that a command line that a
task starts finds them where it looks anyway. Nothing of a connection is in a task's fields, in
XCom, in the job configuration of EMR or, masked by Airflow, in a log.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from compactor.airflow.compat import AirflowException, AirflowRuntimeError, BaseHook, mask_secret
from compactor.core.model.errors import Refused, Unavailable
from compactor.core.settings.variables import USER_INFO

if TYPE_CHECKING:
    from compactor.config.settings import Settings

_lock = threading.Lock()
_sessions: dict[str, tuple[Any, Any, str | None]] = {}
"""Connection that gives the AWS session → its content, the session, and the connection's region."""
_filled: dict[str, str] = {}
"""Environment variable → connection that fills it."""


def use(settings: Settings) -> None:
    """Give this process the credentials of the connections that the configuration names; without any, those of its environment are used.

    Raises Refused if Airflow has no such connection, or if another configuration in the same process has another one: a process has one.
    """
    with _lock:
        for variable, name, value in _values(settings):
            if _filled.setdefault(variable, name) != name:
                raise Refused(f"variable {variable}: expected the connection {_filled[variable]}, as another configuration has; found {name}")
            # Airflow masks passwords, but not what is made of them
            mask_secret(value)
            os.environ[variable] = value
        _use_session(settings.airflow.aws_conn_id)


def _use_session(name: str | None) -> None:
    if name is None and not _sessions:
        return
    if _sessions and name not in _sessions:
        raise Refused(f"key airflow.aws_conn_id: expected {next(iter(_sessions))}, as another configuration of this Airflow has; found {name}")
    # without the connection the provider would take the worker's credentials
    stored = _connection(str(name), "aws_conn_id")
    if not _sessions or _sessions[str(name)][0] != stored:
        from compactor.app.base import use_aws_session

        # it renews the credentials of a role that the connection assumes
        session, region = _session(str(name))
        _sessions[str(name)] = (stored, session, region)
        use_aws_session(session, region)


def _values(settings: Settings) -> Iterator[tuple[str, str, str]]:
    """Return each variable that a connection fills: variable, connection, value."""
    for variable, name in settings.airflow.conn_ids.items():
        stored = _connection(name, "conn_ids")
        login, password = str(stored.login or ""), str(stored.password or "")
        if variable == USER_INFO:
            value = f"{login}:{password}" if login and password else ""
        else:
            value = password if variable == settings.registry.token_env else _address(stored)
        if not value:
            raise Refused(f"key airflow.conn_ids: the connection {name} has no value for the variable {variable}: fill in login and password")
        yield variable, name, value


def _address(stored: Any) -> str:
    """Return the address in a connection: its password alone, or its host with the password as last part, as Slack's connections have it."""
    host, password = str(stored.host or ""), str(stored.password or "")
    if "://" in password:
        return password
    scheme = stored.schema if stored.schema in ("http", "https") else "https"
    base = host if "://" in host else f"{scheme}://{host}" if host else ""
    port = f":{stored.port}" if stored.port and base else ""
    if not base:
        raise Refused(f"key airflow.conn_ids: expected an address as password or host of the connection {stored.conn_id}, found neither")
    return f"{base.rstrip('/')}{port}" + (f"/{password.lstrip('/')}" if password else "")


def export() -> None:
    """Give the AWS credentials to the processes that this task starts. They do not renew them."""
    for _, session, region in _sessions.values():
        credentials = session.get_credentials()
        if credentials is None:
            continue
        frozen = credentials.get_frozen_credentials()
        variables = {
            "AWS_ACCESS_KEY_ID": frozen.access_key,
            "AWS_SECRET_ACCESS_KEY": frozen.secret_key,
            "AWS_SESSION_TOKEN": frozen.token,
            **dict.fromkeys(("AWS_REGION", "AWS_DEFAULT_REGION"), region),
        }
        for variable, value in variables.items():
            if value is not None:
                os.environ[variable] = value
            elif variable == "AWS_SESSION_TOKEN":
                os.environ.pop(variable, None)


def _session(name: str) -> tuple[Any, str | None]:
    """Return the session of a connection, and the connection's region if it has one."""
    try:
        from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        raise Refused("`airflow: {aws_conn_id: ..}` needs the provider: pip install apache-airflow-providers-amazon") from None
    hook = AwsBaseHook(aws_conn_id=name)
    try:
        # it asks STS for the credentials of a role
        return hook.get_session(), hook.region_name
    except (BotoCoreError, ClientError) as error:
        raise Unavailable(f"key airflow.aws_conn_id: no credentials by the connection {name} ({error})") from None


def _connection(name: str, key: str) -> Any:
    """Return an Airflow connection. Raises Refused if there is none of this name."""
    try:
        return BaseHook.get_connection(name)
    except (AirflowException, AirflowRuntimeError) as error:
        raise Refused(f"key airflow.{key}: Airflow has no connection {name} ({error})") from None
