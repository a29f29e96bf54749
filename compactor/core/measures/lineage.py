"""OpenLineage events of a run: https://openlineage.io/docs/spec/object-model. One START and one COMPLETE or FAIL event a run.

The input is the landing folder, the output the table's folder with its version, its columns, and for each column the landed field that it comes
from. Names of datasets follow OpenLineage's naming: `s3://bucket` and the path inside, or `file` and the path; the table in the catalog is a symlink.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from compactor.core.measures.record import RunRecord
from compactor.core.model.layout import Layout
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec

PRODUCER = "https://pypi.org/project/cdc-compactor/"
_SPEC = "https://openlineage.io/spec"
_FACETS = {
    "columnLineage": "1-2-0/ColumnLineageDatasetFacet",
    "errorMessage": "1-0-1/ErrorMessageRunFacet",
    "inputStatistics": "1-0-0/InputStatisticsInputDatasetFacet",
    "jobType": "2-0-4/JobTypeJobFacet",
    "outputStatistics": "1-0-2/OutputStatisticsOutputDatasetFacet",
    "processing_engine": "1-1-1/ProcessingEngineRunFacet",
    "schema": "1-2-0/SchemaDatasetFacet",
    "symlinks": "1-0-1/SymlinksDatasetFacet",
    "version": "1-0-1/DatasetVersionDatasetFacet",
}
"""Facet → version and name of its schema."""


def events(record: RunRecord, spec: TableSpec, snapshot: Snapshot | None, namespace: str) -> list[dict[str, Any]]:
    """Return the two events of a run. `snapshot`: the table's newest version; `namespace`: that of the job."""
    ended = "FAIL" if record.error is not None else "COMPLETE"
    return [_event(record, spec, snapshot, namespace, "START"), _event(record, spec, snapshot, namespace, ended)]


def _event(record: RunRecord, spec: TableSpec, snapshot: Snapshot | None, namespace: str, kind: str) -> dict[str, Any]:
    final = kind != "START"
    run_facets = _facet("processing_engine", version=record.program, name="compactor")
    if kind == "FAIL":
        run_facets |= _facet("errorMessage", message=record.error, programmingLanguage="python")
    source, target = _dataset(spec.landing), _dataset(spec.root)
    if final:
        source["inputFacets"] = _facet("inputStatistics", rowCount=record.events.get("read", 0), size=record.bytes_read, fileCount=record.files)
    outputs = [] if snapshot is None else [_output(record, spec, snapshot, source, target, final)]
    job_type = _facet("jobType", processingType="BATCH", integration="COMPACTOR", jobType="JOB")
    return {
        "eventType": kind,
        "eventTime": record.ended if final else record.started,
        "run": {"runId": _uuid(spec.root, record.id), "facets": run_facets},
        "job": {"namespace": namespace, "name": f"{spec.database}.{spec.name}.{record.operation}", "facets": job_type},
        "inputs": [source] if record.files or kind == "FAIL" or not final else [],
        "outputs": outputs,
        "producer": PRODUCER,
        "schemaURL": f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
    }


def _output(record: RunRecord, spec: TableSpec, snapshot: Snapshot, source: Mapping[str, Any], target: dict[str, Any], final: bool) -> dict[str, Any]:
    shown = [field for field in snapshot.schema.fields if field.visible]
    direct = [{"type": "DIRECT", "subtype": "IDENTITY"}]
    lineage = {
        field.name: {"inputFields": [{"namespace": source["namespace"], "name": source["name"], "field": field.source, "transformations": direct}]}
        for field in shown
    }
    link = {"namespace": "hive", "name": f"{spec.database}.{spec.view}", "type": "TABLE"}
    facets = _facet("symlinks", identifiers=[link]) | _facet("schema", fields=[{"name": field.name, "type": field.type} for field in shown])
    if final:
        # the version that the run left: the one before if it failed
        facets |= _facet("version", datasetVersion=str(snapshot.version))
    output = {**target, "facets": facets | _facet("columnLineage", fields=lineage)}
    if final and record.made:
        output["outputFacets"] = _facet("outputStatistics", rowCount=record.events.get("applied", 0), size=record.bytes_written)
    return output


def _facet(key: str, /, **values: Any) -> dict[str, Any]:
    file = _FACETS[key]
    address = f"{_SPEC}/facets/{file}.json#/$defs/{file.rpartition('/')[2]}"
    return {key: {"_producer": PRODUCER, "_schemaURL": address, **values}}


def _dataset(location: str) -> dict[str, Any]:
    """Return namespace and name of a location.

    >>> _dataset("s3://lake/cdc/student/")["name"]
    'cdc/student'
    """
    if "://" not in location:
        return {"namespace": "file", "name": location.rstrip("/") or "/"}
    scheme, _, rest = location.partition("://")
    bucket, _, path = rest.partition("/")
    return {"namespace": f"{scheme}://{bucket}", "name": path.strip("/") or "/"}


def _uuid(root: str, record: str) -> str:
    """Return the run's UUID (version 8, RFC 9562: from a hash), the same for all events of a record."""
    digits = hashlib.sha256(f"{Layout(root, '').snapshots()}\0{record}".encode()).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-9{digits[17:20]}-{digits[20:32]}"
