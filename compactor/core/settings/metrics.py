"""MetricsSettings: where the measures and records of runs are sent, as plain values that travel to a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from compactor.core.measures.price import Prices

LOG = "log"
"""Instead of a path: the lines go to the log, which is standard error."""


@dataclass(frozen=True)
class MetricsSettings:
    """Sinks of measures. A sink that is not set gets nothing."""

    deployment: str = "compactor"
    """Name of this deployment: a dimension, a label, and the namespace of jobs in OpenLineage."""
    namespace: str = "Compactor"
    """Namespace in CloudWatch."""
    region: str | None = None
    """Region of CloudWatch; None for the environment's."""
    cloudwatch: bool = False
    """Whether to send to CloudWatch with PutMetricData."""
    emf: str | None = None
    """File of lines in CloudWatch's embedded metric format, or LOG."""
    json: str | None = None
    """File of run records, one JSON object a line, or LOG."""
    prometheus: str | None = None
    """Folder of text files for Prometheus's node exporter, one a table."""
    pushgateway: str | None = None
    """URL of a Prometheus pushgateway."""
    openlineage: str | None = None
    """URL that takes OpenLineage events by POST, or a file of one event a line."""
    prices: Prices = field(default_factory=Prices)
    """The price table for the estimated cost."""

    @property
    def lineage_job(self) -> str | None:
        """Return the namespace of jobs in OpenLineage's events; None if no events are sent."""
        return self.deployment if self.openlineage else None

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> MetricsSettings:
        """Return the settings of a JSON object made by `dataclasses.asdict`."""
        return cls(**{**raw, "prices": Prices(**raw["prices"])})
