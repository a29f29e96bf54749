"""The database of an embedded metastore, in Derby.

Derby makes a database of many files, in seconds, and takes a folder in which it was interrupted for no database for ever. So it is made under
another name, shut down and renamed into place; its tables come later, each in a transaction.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError

log = logging.getLogger(__name__)

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
