"""moto's Glue catalog, made as strict as Glue where moto 5.2 is not: `VersionId`, `SkipArchive`, sizes of batches, pages, texts that are too long.

AWS documents the limits with each operation and in the patterns of its shapes; that a stale `VersionId` changes nothing is what Iceberg's Glue
catalog stands on. Runs inside the server (`s3.py`).
"""

from __future__ import annotations

from typing import Any

PAGE = 70
"""Partitions in a page of GetPartitions, and in an answer of BatchGetPartition: fewer than asked for, as with wide tables."""
COMMENT_BYTES_MAX, VIEW_CHARS_MAX = 255, 409_600


def patch() -> None:
    """Change moto's classes, once a process."""
    from moto.core.responses import ActionResult, EmptyResult
    from moto.glue.exceptions import JsonRESTError
    from moto.glue.models import FakeTable
    from moto.glue.responses import GlueResponse

    def refuse(code: str, message: str) -> Any:
        raise JsonRESTError(code, message)

    def first_version(self: Any, *args: Any, **kwargs: Any) -> None:
        created(self, *args, **kwargs)
        self.versions, self._current_version = {"0": self.versions["1"]}, 0

    def as_dict(self: Any, version: Any = None) -> dict[str, Any]:
        told: dict[str, Any] = shown(self, str(self._current_version) if version is None else version)
        return told

    def table_checked(table: dict[str, Any]) -> None:
        for column in table.get("StorageDescriptor", {}).get("Columns", []):
            if len(column.get("Comment", "").encode()) > COMMENT_BYTES_MAX or "\n" in column.get("Comment", ""):
                refuse("ValidationException", "a column's comment is longer than 255 bytes, or has several lines")
        if len(table.get("ViewOriginalText", "")) > VIEW_CHARS_MAX:
            refuse("ValidationException", "Member must have length less than or equal to 409600")

    def create_table(self: Any) -> Any:
        table_checked(self.parameters["TableInput"])
        return make(self)

    def update_table(self: Any) -> Any:
        given = self.parameters
        table_checked(given["TableInput"])
        table = self.glue_backend.get_table(given["DatabaseName"], given["TableInput"]["Name"])
        if given.get("VersionId") not in (None, str(table._current_version)):
            refuse("ConcurrentModificationException", "Update table failed due to concurrent modifications.")
        table.update(given["TableInput"])
        if given.get("SkipArchive"):
            table.versions = {str(table._current_version): table.versions[str(table._current_version)]}
        return EmptyResult()

    def limited(name: str, parameter: str, most: int) -> None:
        inner = getattr(GlueResponse, name)

        def call(self: Any) -> Any:
            if len(self.parameters[parameter]) > most:
                refuse("ValidationException", f"Member must have length less than or equal to {most}")
            return inner(self)

        setattr(GlueResponse, name, call)

    def get_partitions(self: Any) -> Any:
        given = self.parameters
        found = self.glue_backend.get_partitions(given["DatabaseName"], given["TableName"], given.get("Expression"))
        start = int(given.get("NextToken") or 0)
        more = {"NextToken": str(start + PAGE)} if len(found) > start + PAGE else {}
        told = [dict(each.as_dict()) for each in found[start : start + PAGE]]
        if given.get("ExcludeColumnSchema"):
            told = [{**each, "StorageDescriptor": {**each["StorageDescriptor"], "Columns": []}} for each in told]
        return ActionResult({"Partitions": told, **more})

    def batch_get_partition(self: Any) -> Any:
        given = self.parameters
        asked = given["PartitionsToGet"]
        found = self.glue_backend.batch_get_partition(given["DatabaseName"], given["TableName"], asked[:PAGE])
        return ActionResult({"Partitions": found, "UnprocessedKeys": asked[PAGE:]})

    created, shown, make = FakeTable.__init__, FakeTable.as_dict, GlueResponse.create_table
    FakeTable.__init__, FakeTable.as_dict = first_version, as_dict  # type: ignore[method-assign]
    GlueResponse.create_table, GlueResponse.update_table = create_table, update_table  # type: ignore[method-assign]
    GlueResponse.get_partitions, GlueResponse.batch_get_partition = get_partitions, batch_get_partition  # type: ignore[method-assign]
    limited("batch_create_partition", "PartitionInputList", 100)
    limited("batch_update_partition", "Entries", 100)
    limited("batch_delete_partition", "PartitionsToDelete", 25)
    limited("batch_get_partition", "PartitionsToGet", 1000)
