"""AWS credentials from an Airflow connection, through the Amazon provider's own hook."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from compactor.airflow import connection
from compactor.aws import client
from compactor.config.settings import Settings, load
from compactor.core.model.errors import Refused

pytestmark = pytest.mark.airflow


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that has used no connection, and two connections."""
    monkeypatch.setattr(connection, "_sessions", {})
    monkeypatch.setattr(client, "make_session", client.make_session)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "of the worker")
    for name in ("LAKE", "OTHER"):
        monkeypatch.setenv(f"AIRFLOW_CONN_AWS_{name}", f"aws://KEY_OF_{name}:secret@/?region_name=eu-west-1")
    yield
    connection._sessions.clear()


def settings(tmp_path: Path, said: str) -> Settings:
    """A configuration."""
    file = tmp_path / "compactor.yaml"
    file.write_text(f"{said}\ntables: {{t: {{key: [id]}}}}\n", encoding="utf-8")
    return load(file)


def test_clients_and_commands_get_the_credentials_of_the_connection(tmp_path: Path) -> None:
    """Instead of the worker's; the worker's session token must not be sent with another's key."""
    connection.use(settings(tmp_path, "airflow: {aws_conn_id: aws_lake}"))
    made = client.connect("s3", client.ClientConfig(), None)
    assert made._request_signer._credentials.access_key == "KEY_OF_LAKE"
    connection.export()
    assert (os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_DEFAULT_REGION"]) == ("KEY_OF_LAKE", "eu-west-1")
    assert "AWS_SESSION_TOKEN" not in os.environ


def test_without_a_connection_nothing_changes(tmp_path: Path) -> None:
    """AWS's standard chain."""
    connection.use(settings(tmp_path, "airflow: {}"))
    connection.export()
    assert os.environ["AWS_ACCESS_KEY_ID"] == "of the worker"
    assert client.connect("s3", client.ClientConfig(), "eu-west-1")._request_signer._credentials.access_key == "of the worker"


@pytest.mark.parametrize("said", ["airflow: {aws_conn_id: aws_other}", "airflow: {}"])
def test_a_process_has_one_connection(tmp_path: Path, said: str) -> None:
    """The triggerer works for every configuration, and must not mix their credentials."""
    connection.use(settings(tmp_path, "airflow: {aws_conn_id: aws_lake}"))
    with pytest.raises(Refused, match="expected aws_lake, as another configuration of this Airflow has; found"):
        connection.use(settings(tmp_path, said))


def test_a_connection_that_airflow_does_not_have_is_refused(tmp_path: Path) -> None:
    """By its name."""
    with pytest.raises(Refused, match="aws_nowhere"):
        connection.use(settings(tmp_path, "airflow: {aws_conn_id: aws_nowhere}"))
