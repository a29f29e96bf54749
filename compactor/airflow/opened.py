"""Apps that stay open in the triggerer. Reading compactor.yaml with 500 tables takes 0.3 s of CPU, and a trigger asks every 30 seconds."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from asgiref.sync import sync_to_async

from compactor.airflow import connection
from compactor.config.values import is_s3
from compactor.core.model.errors import Refused

if TYPE_CHECKING:
    from compactor.app.app import App
    from compactor.config.settings import Settings

log = logging.getLogger(__name__)

RENEW_SECONDS = 300.0
"""How long an App and the connections of Airflow that it was opened with are used."""

_lock = threading.Lock()
_apps: dict[str, tuple[tuple[object, ...], App]] = {}


def open_app(config: str, strict: bool = True) -> App:
    """Return a new App of this configuration, with the credentials of its Airflow connections. Close it, or use it as a context manager.

    `strict`: raise Refused for a connection that does not exist. An alert about just that is sent with those that do.
    """
    from compactor.app.app import App

    def connect(settings: Settings) -> None:
        try:
            connection.use(settings)
        except Refused as error:
            if strict:
                raise
            log.warning("%s", error)

    return App.open(config, connect=connect)


async def opened_in_triggerer(config: str) -> App:
    """Return what `opened` returns, for code that runs on the triggerer's event loop.

    `opened` asks Airflow for connections. Until 3.2 Airflow ends the triggerer if it is asked from another thread than those of `sync_to_async`, or
    if the call is cancelled before its answer is read.
    """
    app: App = await asyncio.shield(sync_to_async(opened, thread_sensitive=False)(config))
    return app


def opened(config: str) -> App:
    """Return an App of this configuration with its clients; the same one until the file or an overriding variable changes, for five minutes at most.

    So a triggerer that runs for weeks gets what is changed in Airflow's connections.

    The App reads files only. An App that was replaced is not closed, because other threads may still use it; it holds no process and no lock.
    """
    with _lock:
        current = _apps.get(config)
        state = _state(config, current[1] if current is not None else None)
        if current is None or current[0] != state:
            current = _apps[config] = (state, open_app(config))
        return current[1]


def _state(config: str, app: App | None) -> tuple[object, ...]:
    """Return what the settings depend on. `app`: the App of the settings so far."""
    folder = app.settings.discovered_dir if app is not None else os.path.join(os.path.dirname(config), "tables.d")
    # files in S3 are read again every minute
    tables = int(time.time() // 60) if is_s3(folder) else sorted((each.name, each.stat().st_mtime_ns) for each in Path(folder).glob("*.yaml"))
    variables = sorted((name, value) for name, value in os.environ.items() if name.startswith("COMPACTOR_"))
    try:
        stat = os.stat(config)
    except FileNotFoundError:
        # `load` says what to do
        return (None, *variables)
    return (stat.st_mtime_ns, stat.st_size, stat.st_ino, int(time.time() // RENEW_SECONDS), tables, *variables)
