"""JobConfig: the complete configuration that is sent to a job on a cluster. The job needs no other file, environment variable or registry.

It has the tables' specs, how to reach storage and catalog, and the schemas that Kafka records refer to by id. It never lists landed files: the job
itself lists and plans. The file stays in S3, so it has no secret, and no address that may contain one: whoever sent the job sends to these.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

from compactor.core.model.errors import ConfigError
from compactor.core.model.snapshot import fields_of, of_json
from compactor.core.model.spec import TableSpec
from compactor.core.results.notice import Target
from compactor.core.settings.s3 import S3Settings

FORMAT = 2
"""The version of this JSON format. A job refuses any other."""

QUEUE_SECONDS = 6 * 3600.0
"""How long a job may wait for resources before it begins. EMR Serverless has the same limit for its queue."""


@dataclass(frozen=True)
class JobConfig:
    """The tables of one command line, and how a cluster reaches storage and catalog."""

    specs: tuple[TableSpec, ...]
    warehouse: str
    catalog: str = "glue"
    metastore_uri: str | None = None
    catalog_id: str | None = None
    """Account of the Glue catalog; None for the job's own."""
    catalog_region: str | None = None
    """Region of the Glue catalog; None for the job's own."""
    metastore_dir: str | None = None
    """Folder of the embedded metastore; None for any other catalog."""
    s3: S3Settings = field(default_factory=S3Settings)
    """The settings for S3 in the file, without environment variables of the sender. The cluster has its own."""
    schemas: tuple[tuple[int, str], ...] = ()
    """(id, text) of the schemas in the registry."""

    def written(self) -> bytes:
        """Return the configuration as JSON. Equal configurations give equal bytes."""
        specs = tuple(dataclasses.replace(spec, notify=tuple(map(_without_address, spec.notify))) for spec in self.specs)
        values = {"format": FORMAT, **fields_of(dataclasses.replace(self, specs=specs))}
        return json.dumps(values, sort_keys=True, ensure_ascii=False, default=fields_of).encode()

    @classmethod
    def read(cls, data: bytes) -> JobConfig:
        """Return the configuration of a JSON text made by `written`. Raises ConfigError for another format."""
        try:
            values: dict[str, Any] = json.loads(data)
            version = values.pop("format")
        except (ValueError, AttributeError, KeyError, TypeError):
            raise ConfigError("the job configuration: expected a JSON object with `format`, found another text") from None
        advice = "package the job with the version that sends it: `compactor package`, and `emr: {job: ..}`"
        if version != FORMAT:
            raise ConfigError(f"the job configuration: expected format {FORMAT}, found {version}; {advice}")
        try:
            return of_json(cls, values)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"the job configuration comes from another version of compactor than the job ({error}); {advice}") from None

    def schema(self, number: int) -> str | None:
        return dict(self.schemas).get(number)


def _without_address(target: Target) -> Target:
    """Return a target of messages as a cluster needs it: one that it cannot reach without its address, program or variable."""
    return target if target[0] in ("log", "sns") else target[:1]
