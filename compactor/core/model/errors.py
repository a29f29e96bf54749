"""Every error this project raises on purpose.

    CompactorError
    ├── Refused               the input, the configuration or the state is wrong: trying again changes nothing   (exit 1)
    │   ├── ConfigError           compactor.yaml: names file, table, key
    │   ├── InputRefused          a landed file or record cannot be used: names the file
    │   │   └── InputUnfinished       a landed file lacks its end: still being written, or never finished
    │   ├── SchemaRefused         a schema change that cannot be followed
    │   ├── OrderRefused          Positions that cannot be compared (null order column, order changed, several partitions)
    │   ├── CheckFailed           staged data broke an invariant: nothing was committed
    │   ├── CatalogRefused        the catalog holds something that is not ours
    │   ├── RegistryRefused       the schema registry said no, or something else than a schema registry answered
    │   └── StateRefused          the table's own state cannot be read (unknown format, damaged Snapshot)
    └── TryLater              nothing is wrong with the request: the same call may succeed later                 (exit 75)
        ├── Conflict              another writer committed first
        │   └── RequirementFailed     the newest version is not what the change was computed for
        ├── NoRowsYet             only records without rows have landed: nothing tells the columns yet
        ├── Busy                  somebody holds what we need (the embedded metastore)
        └── Unavailable           a service did not answer
            └── InconsistentRead      Spark's view of the store contradicts ours

Messages say what was expected, what was found and what to do; they are not API. The classes are.
"""

from __future__ import annotations


class CompactorError(Exception):
    """Root of all errors raised on purpose; `exit_code` is what the command line ends with."""

    exit_code = 1


class Refused(CompactorError):
    """Trying again changes nothing: somebody has to repair the input, the configuration or the state."""


class ConfigError(Refused):
    """The configuration is wrong; the message names file, table and key."""


class InputRefused(Refused):
    """A landed file or a record in it cannot be used; the message names the file. It stays in landing."""


class InputUnfinished(InputRefused):
    """Landed files without the end their format asks for, and nothing else. `paths`: a young one is left for the next run."""

    def __init__(self, paths: frozenset[str], message: str) -> None:
        super().__init__(message)
        self.paths = paths


class SchemaRefused(Refused):
    """A schema change that cannot be followed without losing data, or is not to be; increments stay in landing. `decisions`: what was found."""

    def __init__(self, message: str, decisions: tuple[object, ...] = ()) -> None:
        super().__init__(message)
        self.decisions = decisions


class OrderRefused(Refused):
    """Positions that cannot be compared."""


class CheckFailed(Refused):
    """Staged data broke an invariant; nothing was committed."""


class CatalogRefused(Refused):
    """The catalog holds an object that is not ours, or ours at another place."""


class RegistryRefused(Refused):
    """The schema registry said no, or what answered is none; the message names address, subject and status."""


class StateRefused(Refused):
    """The table's own state cannot be read."""


class TryLater(CompactorError):
    """The same call may succeed later."""

    exit_code = 75


class Conflict(TryLater):
    """Another writer committed first."""


class RequirementFailed(Conflict):
    """The newest version is not what a change was computed for, such as after a restore by somebody else."""


class NoRowsYet(TryLater):
    """Only records without rows (heartbeats, tombstones) have landed for a new table: nothing tells its columns yet. They stay in landing."""


class Busy(TryLater):
    """Somebody holds what we need."""


class Unavailable(TryLater):
    """A service did not answer."""


class InconsistentRead(Unavailable):
    """Spark's view of the store contradicts ours. Try again."""
