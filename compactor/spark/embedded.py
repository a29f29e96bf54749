"""An embedded metastore: its database, in Derby, and the lock of its folder, which one process has at a time.

Derby makes a database of many files, in seconds, and takes a folder in which it was interrupted for no database for ever. So it is made under
another name, shut down and renamed into place; its tables come later, each in a transaction.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError

from compactor.core.model.errors import Busy, Refused

log = logging.getLogger(__name__)

LOCK_NAME = "compactor.lock"
"""The file in an embedded metastore's folder that is locked."""
LINGER_SECONDS = 15.0
"""How long the JVM of a killed process may take to end."""
_LAST = "service.properties"
"""The file that Derby writes last. Derby opens no database without it."""
_SHUT_DOWN = "08006"
"""Derby reports by an exception that it has shut a database down."""


def url(directory: str) -> str:
    """Return the JDBC URL of the database in an embedded metastore's folder. It creates nothing."""
    return f"jdbc:derby:;databaseName={_database(directory)}"


def ensure_database(jvm: Any, directory: str) -> None:
    """Make an empty database in an embedded metastore's folder if there is none. Expects that this process has locked the folder.

    What an older version of compactor left, when it was killed while Derby made the database, is renamed.
    """
    database = _database(directory)
    if (database / _LAST).exists():
        return
    if database.exists():
        aside = database.with_name(f"{database.name}-unfinished-{time.time_ns()}")
        os.rename(database, aside)
        log.warning("%s was no database: it has no %s. It is %s now, and nothing reads it. Making another one.", database, _LAST, aside.name)
    made = database.with_name(f"{database.name}-new")
    # of a process that was killed
    shutil.rmtree(made, ignore_errors=True)
    driver, account = jvm.org.apache.derby.jdbc.EmbeddedDriver(), jvm.java.util.Properties()
    account.setProperty("user", "APP")
    driver.connect(f"jdbc:derby:;databaseName={made};create=true", account).close()
    try:
        driver.connect(f"jdbc:derby:;databaseName={made};shutdown=true", account)
    except Py4JJavaError as error:
        if error.java_exception.getSQLState() != _SHUT_DOWN:
            raise
    os.rename(made, database)


def _database(directory: str) -> Path:
    return Path(directory).resolve() / "metastore_db"


class Lock:
    """The lock of an embedded metastore's folder. A child process may inherit `fd`; then the lock lasts until both have ended."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def release(self) -> None:
        """Release the lock. A second call does nothing."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def embedded_lock(directory: str, wait_seconds: float) -> Lock:
    """Lock the embedded metastore's folder for this process, waiting up to `wait_seconds`.

    Derby admits one process at a time: a second one hung for 23 s and then printed 224 lines.

    Raises Busy, naming the process that has it, and Refused for a folder in which nothing can be written.
    """
    path = Path(directory) / LOCK_NAME
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise Refused(f"the embedded metastore {directory} cannot be opened: {error.strerror}. Make its folder writable, or set another") from error
    start = time.monotonic()
    warned = False
    while not _try_lock(fd):
        pid, holder = _holder(path)
        # After a process was killed, only its JVM is left, and it is about to end.
        patience = wait_seconds if _alive(pid) else max(wait_seconds, LINGER_SECONDS)
        if time.monotonic() - start >= patience:
            os.close(fd)
            raise Busy(f"the embedded metastore {directory} is in use by {holder}. Try again later, or use a shared metastore (thrift://).")
        if not warned:
            log.warning("waiting up to %.0f s for the embedded metastore %s, in use by %s", patience, directory, holder)
            warned = True
        time.sleep(0.1)
    os.ftruncate(fd, 0)
    with contextlib.suppress(PermissionError):
        # one that an older version wrote
        os.fchmod(fd, 0o600)
    # no arguments: they may be keys to erase, or passwords
    os.pwrite(fd, f"{os.getpid()} {os.path.basename(sys.argv[0])}\n".encode("utf-8", "replace"), 0)
    return Lock(fd)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(path: Path) -> tuple[int | None, str]:
    pid, _, command = path.read_text(errors="replace").strip().partition(" ")
    if not pid.isdigit():
        return None, "another process"
    return int(pid), f"process {pid} ({command})"


def _alive(pid: int | None) -> bool:
    if pid is None:
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
