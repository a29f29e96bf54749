"""Every error that this project raises on purpose.

    CompactorError
    ├── Refused               the input, the configuration or the state is wrong: a retry fails again   (exit 1)
    │   ├── ConfigError           compactor.yaml: names file, table, key
    │   ├── InputRefused          a landed file or record cannot be used: names the file
    │   │   └── InputUnfinished       a landed file has no end: it is being written, or was never finished
    │   ├── SchemaRefused         a schema change that the table cannot or must not follow
    │   ├── OrderRefused          Positions that cannot be compared (null order column, order changed, several partitions)
    │   ├── CheckFailed           staged data broke an invariant: nothing was committed
    │   ├── CatalogRefused        the catalog has an object that is not ours
    │   ├── RegistryRefused       the schema registry refused the request, or the address is no schema registry
    │   └── StateRefused          the table's own state cannot be read (unknown format, damaged Snapshot)
    └── TryLater              nothing is wrong with the request: the same call may succeed later       (exit 75)
        ├── Conflict              another writer committed first
        │   └── RequirementFailed     the newest version is not what the change was computed for
        ├── NoRowsYet             only records without rows have landed, so that the columns are unknown
        ├── Busy                  another process uses the resource (the embedded metastore)
        ├── Stopped               somebody ended the run with Ctrl-C, or cancelled a Spark job (exit 130)
        └── Unavailable           a service did not answer
            └── InconsistentRead      Spark's view of the store contradicts ours

Callers may rely on the classes. Messages are for people: what happened, where, what was expected instead, and what to do.
"""

from __future__ import annotations

import re


def variable(name: str) -> str:
    """Return the name of an environment variable as an error shows it. A secret itself, where a name was expected, is not shown.

    >>> variable("REGISTRY_PASSWORD"), variable("hunter2")
    ('REGISTRY_PASSWORD', '(not shown: expected capital letters, digits and _)')
    """
    return name if re.fullmatch(r"[A-Z_][A-Z0-9_]*", name) else "(not shown: expected capital letters, digits and _)"


class CompactorError(Exception):
    """Root of all errors raised on purpose."""

    exit_code = 1
    """Exit code of the command line."""


class Refused(CompactorError):
    """A retry fails again: somebody has to repair the input, the configuration or the state."""


class ConfigError(Refused):
    """The configuration is wrong; the message names file, table and key."""


class InputRefused(Refused):
    """A landed file, or a record in it, cannot be used. The message names the file, which stays in landing."""


class InputUnfinished(InputRefused):
    """Landed files lack the end that their format requires. A young file may still be written and is left for the next run."""

    def __init__(self, paths: frozenset[str], message: str) -> None:
        super().__init__(message)
        self.paths = paths
        """Paths of the files below the landing root."""


class SchemaRefused(Refused):
    """A schema change that would lose data, or that the table's policy refuses. The increments stay in landing."""

    def __init__(self, message: str, decisions: tuple[object, ...] = ()) -> None:
        super().__init__(message)
        self.decisions = decisions
        """All decisions about the change (`core/schema/policy.py`), those that refuse it among them."""


class OrderRefused(Refused):
    """Positions that cannot be compared."""


class CheckFailed(Refused):
    """Staged data broke an invariant; nothing was committed."""


class CatalogRefused(Refused):
    """The catalog has an object that is not ours, or ours at another location."""


class RegistryRefused(Refused):
    """The schema registry refused the request, or the address is no schema registry. The message names address, subject and status."""


class StateRefused(Refused):
    """The table's own state cannot be read."""


class TryLater(CompactorError):
    """The same call may succeed later."""

    exit_code = 75


class Conflict(TryLater):
    """Another writer committed first."""


class RequirementFailed(Conflict):
    """The newest version does not meet the requirements of a change, for example after a restore by somebody else."""


class NoRowsYet(TryLater):
    """Only records without rows (heartbeats, tombstones) have landed for a new table, so that its columns are unknown. They stay in landing."""


class Busy(TryLater):
    """Another process uses the resource, such as the embedded metastore."""


class Stopped(TryLater):
    """Somebody ended the run with Ctrl-C, or cancelled a Spark job."""

    exit_code = 130


class Unavailable(TryLater):
    """A service did not answer."""


class InconsistentRead(Unavailable):
    """Spark's view of the store contradicts ours. Try again."""
