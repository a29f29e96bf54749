"""What the benchmark asks of a system."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class System(Protocol):
    """An engine that keeps tables. `table` is the folder of one; `landed` is the folder of one hour's landed Parquet files."""

    compacts: bool
    """Whether `compact` does something."""

    def stage(self, table: Path, landed: Path) -> None:
        """Put an hour's files where the system expects them. Not measured."""

    def load(self, table: Path, landed: Path) -> None:
        """Make the table from hour 0."""

    def commit(self, table: Path, landed: Path) -> None:
        """Apply one hour's changes."""

    def compact(self, table: Path) -> None:
        """Merge all changes into the base."""

    def read(self, table: Path) -> None:
        """Aggregate the whole table: the sum of `amount` by `region`."""

    def export(self, table: Path, folder: Path) -> None:
        """Write the rows as plain Parquet files into `folder`. Not measured."""

    def close(self) -> None:
        """End the engine."""
