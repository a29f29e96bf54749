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
from compactor.core.model.inputs import InputLimits
from compactor.core.model.policy import Daily, Policy, Protection, Rule
from compactor.core.model.spec import Csv, TableSpec
from compactor.core.results.notice import Target
from compactor.core.settings.s3 import S3Settings

FORMAT = 1
"""The version of this JSON format. A job refuses any other."""

QUEUE_SECONDS = 6 * 3600.0
"""How long a job may wait for resources before it begins. EMR Serverless has the same limit for its queue."""


@dataclass(frozen=True)
class JobConfig:
    """The tables of one command line, and how a cluster reaches storage and catalog."""

    specs: tuple[TableSpec, ...]
    warehouse: str
    catalog: str = "glue"
    """`hive` or `glue`."""
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
        values = plain(dataclasses.replace(self, specs=specs))
        return json.dumps({"format": FORMAT, **values}, sort_keys=True, ensure_ascii=False).encode()

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
            config: JobConfig = restored({"class": cls.__name__, **values})
            return config
        except (TypeError, KeyError, ValueError) as error:
            raise ConfigError(f"the job configuration comes from another version of compactor than the job ({error}); {advice}") from None

    def schema(self, number: int) -> str | None:
        """Return the schema with this id, or None."""
        return dict(self.schemas).get(number)


_CLASSES = {each.__name__: each for each in (JobConfig, TableSpec, Csv, InputLimits, Daily, Policy, Protection, Rule, S3Settings)}


def plain(value: Any) -> Any:
    """Return JSON values of a dataclass, with the name of its class, and of what is in it."""
    if dataclasses.is_dataclass(value):
        return {"class": type(value).__name__, **{field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}}
    return [plain(each) for each in value] if isinstance(value, tuple) else value


def restored(value: Any) -> Any:
    """Return the value that `plain` has made JSON of. Raises KeyError or TypeError for a class or a field that is not known."""
    if isinstance(value, dict):
        fields = {name: restored(each) for name, each in value.items() if name != "class"}
        return _CLASSES[value["class"]](**fields)
    return tuple(map(restored, value)) if isinstance(value, list) else value


def _without_address(target: Target) -> Target:
    """Return a target of messages as a cluster needs it: one that it cannot reach without its address, program or variable."""
    return target if target[0] in ("log", "sns") else target[:1]
