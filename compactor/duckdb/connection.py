"""Open DuckDB, with the settings that make its answers equal Spark's."""

from __future__ import annotations

from typing import Any

from compactor.duckdb.sources import PROTOCOL
from compactor.ports import Storage

INSTALL = "pip install pandas 'pyarrow>=20' pytz"
"""What to do if a package is missing."""

SETTINGS = {
    # timestamps are instants in UTC
    "TimeZone": "UTC",
    # as in Spark: nulls come first, with DESC last
    "default_null_order": "nulls_first_on_asc_last_on_desc",
    # a division by zero is null, not infinite
    "ieee_floating_point_ops": "false",
    "enable_progress_bar": "false",
    # the name of a missing table is no variable of ours
    "python_enable_replacements": "false",
    # nothing is fetched from the network
    "autoinstall_known_extensions": "false",
}


def connect(storage: Storage, remote: bool) -> Any:
    """Return a DuckDB connection in memory that reads files of this store. `remote`: whether files are in S3."""
    import duckdb

    connection = duckdb.connect(":memory:")
    configure(connection)
    if remote:
        register(connection, storage)
    return connection


def configure(connection: Any) -> None:
    """Apply the settings to a connection, or to a cursor, which does not inherit them."""
    for name, value in SETTINGS.items():
        connection.execute(f"SET {name} = '{value}'")


def prepare(connection: Any, storage: Storage, remote: bool) -> None:
    """Prepare anybody's DuckDB connection for the queries of `queries`. Sets its time zone to UTC."""
    connection.execute(f"SET TimeZone = '{SETTINGS['TimeZone']}'")
    if remote:
        register(connection, storage)


def register(connection: Any, storage: Storage) -> None:
    """Let a connection read objects in S3 through the store."""
    from compactor.duckdb.store import StoreFileSystem

    if connection.filesystem_is_registered(PROTOCOL):
        # the connection may have read another configuration before
        connection.unregister_filesystem(PROTOCOL)
    connection.register_filesystem(StoreFileSystem(storage))
