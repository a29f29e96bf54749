"""The catalog in AWS Glue, called directly: no Spark, no JVM. docs/aws.md describes its readers and the permissions it needs.

Every change of a table or view is a compare-and-set: UpdateTable with the `VersionId` that was read. If another process changed the object
first, the object is read again. So a view never goes back to an older version, even if its publisher was suspended.
`SkipArchive`: Glue would otherwise store each former version, and hourly updates of some hundred tables would exhaust the account's quota.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from compactor.aws.client import AwsClient
from compactor.aws.retry import ABSENT, PASSING, TAKEN, ExpectedError, Retryable, item_error, kind_of, words
from compactor.catalog import rules
from compactor.catalog.glue import shapes
from compactor.core.catalog.ddl import NativeDef, PartitionDef, TableDef, ViewDef
from compactor.core.model.errors import CatalogRefused
from compactor.core.settings.aws import ClientConfig

log = logging.getLogger(__name__)

WRITE_BATCH, DELETE_BATCH = 100, 25
"""Partitions in one request: BatchCreatePartition and BatchUpdatePartition accept 100, BatchDeletePartition 25. Reads accept 1000 and
return fewer if the partitions have many columns."""

_FINAL = (
    (
        {"AccessDeniedException", "AccessDenied", "403"},
        "not allowed to glue:{action}: grant this identity what docs/aws.md lists for the database, its tables and the catalog; where Lake Formation"
        " manages permissions, also there (DESCRIBE, ALTER, CREATE_TABLE on the database)",
    ),
    ({"EntityNotFoundException"}, "the database or table does not exist: create the database, or correct catalog.database and tables_in"),
    (
        {"GlueEncryptionException"},
        "the catalog is encrypted with a key that this identity may not use: grant kms:Decrypt and kms:GenerateDataKey on it",
    ),
    ({"ResourceNumberLimitExceededException", "LimitExceededException"}, "a quota of Glue is used up: have it raised, or delete unused objects"),
    ({"InvalidInputException", "ValidationException"}, "Glue rejects the definition: a name, type or text exceeds a limit of Glue"),
)
"""Error codes → what to do about an error that no retry can change."""

Registered = dict[tuple[str, ...], dict[str, Any]]


class GlueCatalog:
    """The Glue catalog of one account and region. Thread-safe. `catalog_id`: the account; default that of the credentials."""

    def __init__(self, config: ClientConfig, catalog_id: str | None = None) -> None:
        self._client = AwsClient("glue", config, _FINAL, "{host} refused glue:{action}", CatalogRefused, CatalogId=catalog_id)

    def ensure_database(self, name: str, location: str) -> None:
        if not self.has_database(name):
            what, made = f"database {name}", {"Name": name.lower(), "LocationUri": rules.uri(location)}
            self._client.retry(what, "create it", lambda: self._may(TAKEN, "create_database", what, DatabaseInput=made))

    def has_database(self, name: str) -> bool:
        what = f"database {name}"
        return self._client.retry(what, "look for it", lambda: self._may(ABSENT, "get_database", what, Name=name.lower()))

    def table(self, database: str, name: str) -> TableDef | None:
        label = f"{database}.{name}"
        existing = self._client.retry(label, "look", lambda: self._get(database, name))
        return None if existing is None or existing.get("TableType") != rules.TABLE else shapes.table(existing)

    def ensure_table(self, table: TableDef) -> None:
        label = f"{table.database}.{table.name}"

        def attempt() -> None:
            existing = self._get(table.database, table.name)
            if existing is None:
                self._create(label, table.database, shapes.table_input(table))
            else:
                self._update_table(existing, table)

        self._client.retry(label, "create or update it", attempt)

    def ensure_partitions(self, database: str, table: str, partitions: Sequence[PartitionDef]) -> None:
        """Register the missing partitions in bulk, and update stale ones. Checks all of them before it writes the first."""
        label = f"{database}.{table}"
        owner = self._client.retry(label, "look", lambda: self._get(database, table))
        owner = owner or {}
        rules.check_external(label, owner.get("TableType", ""))
        requested = [*{each.values: each for each in partitions}.values()]
        batches = [(batch, self._registered(label, owner, batch)) for batch in _batches(requested, WRITE_BATCH)]
        for batch, existing in batches:
            self._client.retry(label, "register partitions", self._registering(label, owner, batch, existing))

    def partitions(self, database: str, table: str) -> list[PartitionDef]:
        label, place = f"{database}.{table}", {"DatabaseName": database.lower(), "TableName": table.lower()}
        partitions_read: list[PartitionDef] = []
        token: str | None = None
        while True:

            def attempt(token: str | None = token) -> dict[str, Any]:
                return self._client.request("get_partitions", label, (ABSENT,), **place, ExcludeColumnSchema=True, NextToken=token)

            try:
                answer = self._client.retry(label, "list partitions", attempt)
            except ExpectedError:
                return []
            partitions_read += [shapes.partition(entry) for entry in answer.get("Partitions", [])]
            token = answer.get("NextToken")
            if not token:
                return sorted(partitions_read, key=lambda partition: partition.values)

    def drop_partitions(self, database: str, table: str, values: Sequence[tuple[str, ...]]) -> None:
        label, place = f"{database}.{table}", {"DatabaseName": database.lower(), "TableName": table.lower()}
        for batch in _batches(values, DELETE_BATCH):

            def attempt(batch: Sequence[tuple[str, ...]] = batch) -> None:
                try:
                    answer = self._client.request(
                        "batch_delete_partition", label, (ABSENT,), **place, PartitionsToDelete=[{"Values": list(each)} for each in batch]
                    )
                except ExpectedError:
                    return
                _settle(self._client, label, "batch_delete_partition", answer, fine=(ABSENT,))

            self._client.retry(label, "unregister partitions", attempt)

    def view(self, database: str, name: str) -> ViewDef | None:
        label = f"{database}.{name}"
        existing = self._client.retry(label, "look", lambda: self._get(database, name))
        if existing is None:
            return None
        rules.check_view(label, existing.get("TableType", ""))
        return shapes.view(existing)

    def replace_view(self, view: ViewDef) -> None:
        """Create the view or replace it in one request. A view that shows a newer version of the same table is left unchanged."""
        label = f"{view.database}.{view.name}"

        def attempt() -> None:
            existing = self._get(view.database, view.name)
            if existing is None:
                self._create(label, view.database, shapes.view_input(view))
                return
            rules.check_view(label, existing.get("TableType", ""))
            there = existing.get("Parameters", {})
            if rules.outdated(view, there):
                log.info("%s: already shows a newer version; left unchanged", label)
                return
            made = shapes.view_input(view)
            requested = shapes.updated(existing, **{**made, "Parameters": {**rules.kept(there), **made["Parameters"]}})
            if requested != shapes.updated(existing):
                self._update(label, existing, requested)

        self._client.retry(label, "replace the view", attempt)

    def native(self, database: str, name: str) -> NativeDef | None:
        label = f"{database}.{name}"
        existing = self._client.retry(label, "look", lambda: self._get(database, name))
        return None if existing is None else shapes.native(label, existing)

    def point(self, table: NativeDef, expected: str | None) -> bool:
        """Create the table or move its pointer, with the `VersionId` that was read."""
        label = f"{table.database}.{table.name}"

        def attempt() -> bool:
            existing = self._get(table.database, table.name)
            there = shapes.native(label, existing).metadata if existing else None
            if there != expected and there != rules.place(table.metadata):
                return False
            made = shapes.native_input(table, expected)
            if existing is None:
                self._create(label, table.database, made)
            elif there == expected:
                self._update(
                    label, existing, shapes.updated(existing, **{**made, "Parameters": {**existing.get("Parameters", {}), **made["Parameters"]}})
                )
            return True

        return self._client.retry(label, "move its pointer", attempt)

    def _get(self, database: str, name: str) -> dict[str, Any] | None:
        label = f"{database}.{name}"
        try:
            answer = self._client.request("get_table", label, (ABSENT,), DatabaseName=database.lower(), Name=name.lower())
        except ExpectedError:
            return None
        existing: dict[str, Any] = answer["Table"]
        if not existing.get("VersionId"):
            raise CatalogRefused(f"{label}: {self._client.host} returned a table without VersionId. Nothing can be changed safely there: use Glue.")
        return existing

    def _create(self, label: str, database: str, made: dict[str, Any]) -> None:
        if not self._may(TAKEN, "create_table", label, DatabaseName=database.lower(), TableInput=made):
            raise Retryable("another process created it at the same moment")

    def _update(self, label: str, existing: dict[str, Any], requested: dict[str, Any]) -> None:
        version = {"VersionId": existing["VersionId"], "SkipArchive": True}
        if not self._may(ABSENT, "update_table", label, DatabaseName=existing["DatabaseName"], TableInput=requested, **version):
            raise Retryable("another process dropped it at the same moment")

    def _may(self, expected: str, operation: str, label: str, **parameters: Any) -> bool:
        """Send a request. Return False for the expected kind of error."""
        try:
            self._client.request(operation, label, (expected,), **parameters)
        except ExpectedError:
            return False
        return True

    def _update_table(self, existing: dict[str, Any], table: TableDef) -> None:
        storage = existing.get("StorageDescriptor", {})
        columns, partition_columns = shapes.columns(storage.get("Columns", [])), shapes.columns(existing.get("PartitionKeys", []))
        library = storage.get("SerdeInfo", {}).get("SerializationLibrary")
        rules.check_update(table, existing.get("TableType", ""), storage.get("Location", ""), columns, partition_columns, library)
        made = shapes.table_input(table)
        requested = shapes.updated(
            existing,
            StorageDescriptor={**storage, "Columns": made["StorageDescriptor"]["Columns"]},
            Parameters={**rules.kept(existing.get("Parameters", {})), **rules.table_parameters(table)},
        )
        if requested != shapes.updated(existing):
            self._update(f"{table.database}.{table.name}", existing, requested)

    def _registered(self, label: str, owner: dict[str, Any], requested: Sequence[PartitionDef]) -> Registered:
        """Return those partitions that are registered. Raises CatalogRefused for one at another location."""
        existing: Registered = {}
        left = [{"Values": list(partition.values)} for partition in requested]
        while left:

            def attempt(left: list[dict[str, Any]] = left) -> dict[str, Any]:
                place = {"DatabaseName": owner["DatabaseName"], "TableName": owner["Name"]}
                answer = self._client.request("batch_get_partition", label, **place, PartitionsToGet=left)
                if len(answer.get("UnprocessedKeys", [])) >= len(left):
                    raise Retryable("the response had none of the requested partitions")
                return answer

            answer = self._client.retry(label, "look at partitions", attempt)
            existing.update({tuple(entry["Values"]): entry for entry in answer.get("Partitions", [])})
            left = answer.get("UnprocessedKeys", [])
        for partition in requested:
            if partition.values in existing:
                location = existing[partition.values]["StorageDescriptor"].get("Location", "")
                rules.check_location(f"{label} {list(partition.values)}", location, partition.location)
        return existing

    def _registering(self, label: str, owner: dict[str, Any], requested: Sequence[PartitionDef], existing: Registered) -> Callable[[], None]:
        """Return a function that updates this batch. Its first call uses `existing`, later calls read the partitions again."""
        first = iter([existing])
        place = {"DatabaseName": owner["DatabaseName"], "TableName": owner["Name"]}

        def attempt() -> None:
            there = next(first, None)
            there = self._registered(label, owner, requested) if there is None else there
            missing = [shapes.partition_input(owner, each) for each in requested if each.values not in there]
            stale = [each for each in requested if each.values in there and shapes.outdated_partition(owner, there[each.values], each)]
            if stale:
                entries = [
                    {"PartitionValueList": list(each.values), "PartitionInput": shapes.updated_partition(owner, there[each.values], each)}
                    for each in stale
                ]
                answer = self._client.request("batch_update_partition", label, **place, Entries=entries)
                _settle(self._client, label, "batch_update_partition", answer, again=(ABSENT,))
            if missing:
                answer = self._client.request("batch_create_partition", label, **place, PartitionInputList=missing)
                # A partition may have been registered meanwhile; the next attempt checks its location.
                _settle(self._client, label, "batch_create_partition", answer, again=(TAKEN,))

        return attempt


def _settle(client: AwsClient, label: str, operation: str, answer: dict[str, Any], fine: tuple[str, ...] = (), again: tuple[str, ...] = ()) -> None:
    """Check the error of each item. Kinds in `fine` are ignored. Raises Retryable for kinds in `again`, CatalogRefused for final errors."""
    passing: list[str] = []
    for item in answer.get("Errors", []):
        detail = item.get("ErrorDetail", {})
        values = item.get("PartitionValues") or item.get("PartitionValueList") or []
        error = item_error(detail.get("ErrorCode", ""), detail.get("ErrorMessage", ""), operation)
        kind = kind_of(error)
        if kind in (PASSING, *again):
            passing.append(f"{values} ({words(error)})")
        elif kind not in fine:
            raise client.refusal(error, f"{label} {values}", operation)
    if passing:
        raise Retryable(f"{len(passing)} of the partitions failed, such as {passing[0]}")


def _batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
