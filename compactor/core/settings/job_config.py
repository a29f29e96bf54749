"""JobConfig: a configuration as it travels to a cluster. Everything there is said: no file, no environment of the edge, no registry is asked again.

It holds what the operator declares (TableSpecs, how storage and catalog are reached) and the schemas that Kafka records may name by id, and
never files: listing, planning and planning again happen in the job (H30).
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

from compactor.core.model.errors import ConfigError
from compactor.core.model.spec import TableSpec
from compactor.core.settings.s3 import S3Settings

FORMAT = 1
"""Counts changes of this shape: a job refuses what another version wrote."""


@dataclass(frozen=True)
class JobConfig:
    """The tables of one command line, and how a cluster reaches what they need.

    `catalog` is hive or glue; `metastore_uri` the metastore's (hive). `s3` is what the file says, without the edge's environment: the cluster has
    its own. `schemas`: id → text, of what the registry held.
    `metrics`: namespace, deployment, region.
    """

    specs: tuple[TableSpec, ...]
    warehouse: str
    catalog: str = "glue"
    metastore_uri: str | None = None
    catalog_id: str | None = None
    catalog_region: str | None = None
    s3: S3Settings = field(default_factory=S3Settings)
    schemas: tuple[tuple[int, str], ...] = ()
    metrics: tuple[str, str, str | None] | None = None

    def written(self) -> bytes:
        """As JSON; the same for the same content."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        values["specs"] = [spec.to_json() for spec in self.specs]
        values["s3"] = dataclasses.asdict(self.s3)
        return json.dumps({"format": FORMAT, **values}, sort_keys=True, ensure_ascii=False).encode()

    @classmethod
    def read(cls, data: bytes) -> JobConfig:
        """The inverse of `written`. Raises ConfigError for what this version cannot read."""
        try:
            values: dict[str, Any] = json.loads(data)
            found = values.pop("format")
        except (ValueError, AttributeError, KeyError, TypeError):
            raise ConfigError("the job configuration: expected a JSON object with `format`, found something else") from None
        advice = "package the job with the version that sends it: `compactor package`, and `emr: {job: ..}`"
        if found != FORMAT:
            raise ConfigError(f"the job configuration has format {found}, and this job reads {FORMAT}; {advice}")
        try:
            values["specs"] = tuple(TableSpec.from_json(spec) for spec in values["specs"])
            values["s3"] = S3Settings(**values["s3"])
            values["schemas"] = tuple((number, text) for number, text in values["schemas"])
            values["metrics"] = tuple(values["metrics"]) if values.get("metrics") else None
            return cls(**values)
        except (TypeError, KeyError, ValueError) as error:
            raise ConfigError(f"the job configuration is of another version of the tool than this job ({error}); {advice}") from None

    def schema(self, number: int) -> str | None:
        """The schema with this id, or None."""
        return dict(self.schemas).get(number)
