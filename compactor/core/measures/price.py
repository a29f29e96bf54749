"""Cost of a run on EMR Serverless: what the job used, and the price table of the configuration."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Prices:
    """The price table. EMR's price list has both figures for each region."""

    vcpu_hour: float = 0.0
    """Price of a vCPU for an hour."""
    memory_gb_hour: float = 0.0
    """Price of a GB of memory for an hour."""
    currency: str = "USD"
    """Currency of both."""

    def cost(self, vcpu_hours: float, memory_gb_hours: float) -> float | None:
        """Return the cost, or None without prices.

        >>> Prices(0.05, 0.005).cost(2.0, 8.0)
        0.14
        """
        if not (self.vcpu_hour or self.memory_gb_hour):
            return None
        return round(vcpu_hours * self.vcpu_hour + memory_gb_hours * self.memory_gb_hour, 6)


@dataclass(frozen=True)
class JobUsage:
    """What an EMR job used: a table's share of it, by the seconds of its run."""

    id: str
    """The id of the job."""
    vcpu_hours: float
    """vCPU-hours, as billed."""
    memory_gb_hours: float
    """Memory-hours in GB, as billed."""
    cost: float | None = None
    """Estimated cost; null without a price table."""
    currency: str | None = None
    """Currency of the cost; null without a price table."""

    def share(self, part: float, prices: Prices) -> JobUsage:
        """Return a part (0 to 1) of it with its cost."""
        vcpu, memory = round(self.vcpu_hours * part, 6), round(self.memory_gb_hours * part, 6)
        cost = prices.cost(vcpu, memory)
        return JobUsage(self.id, vcpu, memory, cost, prices.currency if cost is not None else None)
