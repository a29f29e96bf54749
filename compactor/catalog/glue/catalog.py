"""The catalog in AWS Glue, spoken to directly: no Spark, no JVM. docs/glue.md tells who reads what it writes, and with which rights.

Every change of a table or view is a compare-and-set: UpdateTable with the `VersionId` that was read. When somebody else was faster the
object is read again and looked at anew, so a view never goes back to an older version, however long its publisher slept (H23).
`SkipArchive`: Glue would keep each former version of a table, up to a quota of the account that hourly updates of some hundred tables use up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from compactor.aws.retry import ABSENT, CHANGED, PASSING, TAKEN, ExpectedError, Retryable, item_error, kind_of, words
from compactor.catalog import rules
from compactor.catalog.formats import FORMATS
from compactor.catalog.glue import shapes
from compactor.catalog.glue.client import GlueClient, GlueSettings, refusal
from compactor.core.catalog.ddl import PartitionDef, TableDef, ViewDef
from compactor.core.model.errors import CatalogRefused

log = logging.getLogger(__name__)

WRITE_BATCH, DELETE_BATCH = 100, 25
"""Partitions in one request: BatchCreatePartition and BatchUpdatePartition take 100, BatchDeletePartition 25; reads take 1000, and answer
with a part of them when their columns are many."""

Found = dict[tuple[str, ...], dict[str, Any]]


class GlueCatalog:
    """The Glue catalog of one account and region. Threads may share it."""

    def __init__(self, settings: GlueSettings | None = None) -> None:
        self._client = GlueClient(settings or GlueSettings())

    def ensure_database(self, name: str, location: str) -> None:
        """Create the database when it is missing."""
        what = f"database {name}"

        def attempt() -> None:
            if not self._may(ABSENT, "get_database", what, Name=name.lower()):
                self._may(TAKEN, "create_database", what, DatabaseInput={"Name": name.lower(), "LocationUri": rules.uri(location)})

        self._client.persist(what, "look for it", attempt)

    def has_database(self, name: str) -> bool:
        """Whether it is there."""
        what = f"database {name}"
        return self._client.persist(what, "look for it", lambda: self._may(ABSENT, "get_database", what, Name=name.lower()))

    def table(self, database: str, name: str) -> TableDef | None:
        """The external table as it is, or None."""
        label = f"{database}.{name}"
        found = self._client.persist(label, "look", lambda: self._get(database, name))
        return None if found is None or found.get("TableType") != shapes.TABLE else shapes.table(found)

    def ensure_table(self, table: TableDef) -> None:
        """Create the table, or append columns and bring comments and properties up to date."""
        rules.check_table(table)
        label = f"{table.database}.{table.name}"

        def attempt() -> None:
            found = self._get(table.database, table.name)
            if found is None:
                self._create(label, table.database, shapes.table_input(table))
            else:
                self._update_table(label, found, table)

        self._client.persist(label, "create or update it", attempt)

    def ensure_partitions(self, database: str, table: str, partitions: Sequence[PartitionDef]) -> None:
        """Register the missing ones in bulk; nothing is registered when one is refused before the first is written."""
        label = f"{database}.{table}"
        owner = self._client.persist(label, "look", lambda: self._get(database, table))
        if owner is None or owner.get("TableType") != shapes.TABLE:
            raise CatalogRefused(f"{label}: expected an external table, found {shapes.kind(owner or {})}")
        wanted = [*rules.distinct(label, [key["Name"] for key in owner.get("PartitionKeys", [])], partitions).values()]
        batches = [(batch, self._registered(label, owner, batch)) for batch in _batches(wanted, WRITE_BATCH)]
        for batch, found in batches:
            self._client.persist(label, "register partitions", self._registering(label, owner, batch, found))

    def partitions(self, database: str, table: str) -> list[PartitionDef]:
        """What is registered, by values."""
        label, place = f"{database}.{table}", {"DatabaseName": database.lower(), "TableName": table.lower()}
        found: list[PartitionDef] = []
        token: str | None = None
        while True:

            def attempt(token: str | None = token) -> dict[str, Any]:
                return self._client.ask("get_partitions", label, (ABSENT,), **place, ExcludeColumnSchema=True, NextToken=token)

            try:
                answer = self._client.persist(label, "list partitions", attempt)
            except ExpectedError:
                return []
            found += [shapes.partition(entry) for entry in answer.get("Partitions", [])]
            token = answer.get("NextToken")
            if not token:
                return sorted(found, key=lambda partition: partition.values)

    def drop_partitions(self, database: str, table: str, values: Sequence[tuple[str, ...]]) -> None:
        """Unregister; the files stay."""
        label, place = f"{database}.{table}", {"DatabaseName": database.lower(), "TableName": table.lower()}
        for batch in _batches(values, DELETE_BATCH):

            def attempt(batch: Sequence[tuple[str, ...]] = batch) -> None:
                try:
                    answer = self._client.ask(
                        "batch_delete_partition", label, (ABSENT,), **place, PartitionsToDelete=[{"Values": list(each)} for each in batch]
                    )
                except ExpectedError:
                    return
                _settle(label, "batch_delete_partition", self._client.host, answer, fine=(ABSENT,))

            self._client.persist(label, "unregister partitions", attempt)

    def view(self, database: str, name: str) -> ViewDef | None:
        """The view as it is, or None."""
        label = f"{database}.{name}"
        found = self._client.persist(label, "look", lambda: self._get(database, name))
        if found is None:
            return None
        _check_view(label, found)
        return shapes.view(found)

    def replace_view(self, view: ViewDef) -> None:
        """Create the view, or replace all of it at once; one that shows a newer version of the same table by now stays as it is."""
        label = f"{view.database}.{view.name}"

        def attempt() -> None:
            found = self._get(view.database, view.name)
            if found is None:
                self._create(label, view.database, shapes.view_input(view))
                return
            _check_view(label, found)
            there = found.get("Parameters", {})
            if rules.outdated(view, there):
                log.info("%s: shows a newer version already; it stays", label)
                return
            made = shapes.view_input(view)
            wanted = shapes.updated(found, **{**made, "Parameters": {**rules.kept(there), **made["Parameters"]}})
            if wanted != shapes.updated(found):
                self._update(label, found, wanted)

        self._client.persist(label, "replace the view", attempt)

    def _get(self, database: str, name: str) -> dict[str, Any] | None:
        label = f"{database}.{name}"
        try:
            answer = self._client.ask("get_table", label, (ABSENT,), DatabaseName=database.lower(), Name=name.lower())
        except ExpectedError:
            return None
        found: dict[str, Any] = answer["Table"]
        if not found.get("VersionId"):
            raise CatalogRefused(f"{label}: {self._client.host} tells no VersionId of a table, so nothing could be changed safely: this is not Glue")
        return found

    def _create(self, label: str, database: str, made: dict[str, Any]) -> None:
        if not self._may(TAKEN, "create_table", label, DatabaseName=database.lower(), TableInput=made):
            raise Retryable("somebody else created it at the same moment")

    def _update(self, label: str, found: dict[str, Any], wanted: dict[str, Any]) -> None:
        try:
            self._client.ask(
                "update_table",
                label,
                (CHANGED, ABSENT),
                DatabaseName=found["DatabaseName"],
                TableInput=wanted,
                VersionId=found["VersionId"],
                SkipArchive=True,
            )
        except ExpectedError as answer:
            raise Retryable("somebody else changed it at the same moment") from answer

    def _may(self, expected: str, operation: str, label: str, **parameters: Any) -> bool:
        """Ask; False for the expected kind of a no."""
        try:
            self._client.ask(operation, label, (expected,), **parameters)
        except ExpectedError:
            return False
        return True

    def _update_table(self, label: str, found: dict[str, Any], table: TableDef) -> None:
        if found.get("TableType") != shapes.TABLE:
            raise CatalogRefused(f"{label}: expected an external table, found {shapes.kind(found)}; drop it or choose another name")
        storage = found["StorageDescriptor"]
        rules.check_location(label, storage.get("Location", ""), table.location)
        rules.check_partition_columns(label, shapes.columns(found.get("PartitionKeys", [])), table.partition_columns)
        library = storage.get("SerdeInfo", {}).get("SerializationLibrary")
        if library != FORMATS[table.format][2]:
            raise CatalogRefused(f"{label}: expected a table of {table.format} files, found {library}")
        made = shapes.table_input(table)
        rules.check_evolution(label, shapes.columns(storage.get("Columns", [])), rules.table_columns(table))
        wanted = shapes.updated(
            found,
            StorageDescriptor={**storage, "Columns": made["StorageDescriptor"]["Columns"]},
            Parameters={**rules.kept(found.get("Parameters", {})), **shapes.table_parameters(table)},
        )
        if wanted != shapes.updated(found):
            self._update(label, found, wanted)

    def _registered(self, label: str, owner: dict[str, Any], wanted: Sequence[PartitionDef]) -> Found:
        """Those of them that are there, each at its place. Raises CatalogRefused for one elsewhere."""
        found: Found = {}
        left = [{"Values": list(partition.values)} for partition in wanted]
        while left:

            def attempt(left: list[dict[str, Any]] = left) -> dict[str, Any]:
                place = {"DatabaseName": owner["DatabaseName"], "TableName": owner["Name"]}
                answer = self._client.ask("batch_get_partition", label, **place, PartitionsToGet=left)
                if len(answer.get("UnprocessedKeys", [])) >= len(left):
                    raise Retryable("none of the partitions was looked up")
                return answer

            answer = self._client.persist(label, "look at partitions", attempt)
            found.update({tuple(entry["Values"]): entry for entry in answer.get("Partitions", [])})
            left = answer.get("UnprocessedKeys", [])
        for partition in wanted:
            if partition.values in found:
                location = found[partition.values]["StorageDescriptor"].get("Location", "")
                rules.check_location(f"{label} {list(partition.values)}", location, partition.location)
        return found

    def _registering(self, label: str, owner: dict[str, Any], wanted: Sequence[PartitionDef], found: Found) -> Callable[[], None]:
        """The attempt to bring this batch up to date; `found` is what the first one goes by, later ones look again."""
        first = iter([found])
        place = {"DatabaseName": owner["DatabaseName"], "TableName": owner["Name"]}

        def attempt() -> None:
            there = next(first, None)
            there = self._registered(label, owner, wanted) if there is None else there
            missing = [shapes.partition_input(owner, each) for each in wanted if each.values not in there]
            stale = [each for each in wanted if each.values in there and shapes.outdated_partition(owner, there[each.values], each)]
            if stale:
                entries = [
                    {"PartitionValueList": list(each.values), "PartitionInput": shapes.updated_partition(owner, there[each.values], each)}
                    for each in stale
                ]
                answer = self._client.ask("batch_update_partition", label, **place, Entries=entries)
                _settle(label, "batch_update_partition", self._client.host, answer, again=(ABSENT,))
            if missing:
                answer = self._client.ask("batch_create_partition", label, **place, PartitionInputList=missing)
                # registered meanwhile, by us or by somebody else: the next look tells whether at the same place
                _settle(label, "batch_create_partition", self._client.host, answer, again=(TAKEN,))

        return attempt


def _settle(label: str, operation: str, host: str, answer: dict[str, Any], fine: tuple[str, ...] = (), again: tuple[str, ...] = ()) -> None:
    """Look at each item's own error: nothing for `fine` kinds, Passing for those worth another attempt, CatalogRefused for what is final."""
    passing: list[str] = []
    for item in answer.get("Errors", []):
        detail = item.get("ErrorDetail", {})
        values = item.get("PartitionValues") or item.get("PartitionValueList") or []
        error = item_error(detail.get("ErrorCode", ""), detail.get("ErrorMessage", ""), operation)
        kind = kind_of(error)
        if kind in (PASSING, *again):
            passing.append(f"{values} ({words(error)})")
        elif kind not in fine:
            raise refusal(error, f"{label} {values}", operation, host)
    if passing:
        raise Retryable(f"{len(passing)} of the partitions were not taken, such as {passing[0]}")


def _check_view(label: str, found: dict[str, Any]) -> None:
    if found.get("TableType") != shapes.VIEW:
        raise CatalogRefused(f"{label}: expected a view, found {shapes.kind(found)}; say `view:` or rename it")


def _batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
