"""How an AWS service is reached."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ClientConfig:
    """Address, timeouts and retries of one AWS service."""

    region: str | None = None
    """AWS region; None: from the environment, as every AWS tool reads it."""
    endpoint: str | None = None
    """URL of the service; None: the region's public endpoint, or the one that the environment names."""
    connect_seconds: float = 5.0
    read_seconds: float = 30.0
    """Timeout until a response begins."""
    operation_seconds: float = 120.0
    """Deadline for one operation with all its retries."""
    wait_seconds_min: float = 0.2
    """Longest wait before the second attempt. It doubles with each attempt."""
    wait_seconds_max: float = 10.0
    """Upper bound for the wait between two attempts."""
    client_attempts: int = 3
    """Attempts that botocore makes within each of our attempts."""
