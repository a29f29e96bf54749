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
        ├── Stopped               Ctrl-C or SIGTERM ended the run, or somebody cancelled a Spark job (exit 130)
        └── Unavailable           a service did not answer
            └── InconsistentRead      Spark's view of the store contradicts ours

Callers may rely on the classes and their ids. Messages are for people: what happened, where, what was expected instead, and what to do.
`docs/errors.md` is made of the docstrings and the `advice` of the classes (`make docs`), so both are Markdown, with links relative to `docs/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar

PAGE = "docs/errors.md"
"""The page about all errors, with a heading for each id."""

UNEXPECTED = "unexpected"
"""The id of all errors that are not raised on purpose."""


def see(error: str) -> str:
    """Return the line that leads from an error's message to its explanation. `error`: the id.

    >>> see("config-error")
    'see docs/errors.md#config-error'
    """
    return f"see {PAGE}#{error}"


def variable(name: str) -> str:
    """Return the name of an environment variable as an error shows it. A secret itself, where a name was expected, is not shown.

    >>> variable("REGISTRY_PASSWORD"), variable("hunter2")
    ('REGISTRY_PASSWORD', '(not shown: expected capital letters, digits and _)')
    """
    return name if re.fullmatch(r"[A-Z_][A-Z0-9_]*", name) else "(not shown: expected capital letters, digits and _)"


class CompactorError(Exception):
    """Root of all errors raised on purpose. Callers catch it; nothing raises it."""

    exit_code: ClassVar[int] = 1
    id: ClassVar[str] = "compactor-error"
    """The class name in lower case with hyphens: stable, shown with every message, a heading of `PAGE`."""
    advice: ClassVar[str] = "Look up the class below it."
    """What to do. Each class has its own."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.id = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", cls.__name__).lower()


class Refused(CompactorError):
    """A retry fails again: somebody has to repair the input, the configuration or the state.

    The class itself stands for what no class below it names: no Java, no disk space, too little memory for Spark, a missing permission, a file system
    without hard links, a version that is not kept, a statement that cannot run.
    """

    advice = "Do what the message asks for, then run the command again."


class ConfigError(Refused):
    """The configuration is wrong. The message names file, line, table and key; all mistakes in the file are reported together."""

    advice = """Correct `compactor.yaml`. [Configuration](configuration.md) describes every key, `compactor.schema.json` lets an editor mark mistakes
        while you type, and `compactor plan` compares the configuration with the files."""


class InputRefused(Refused):
    """A landed file, or a record in it, cannot be used. The message names the file, which stays in landing.

    It is damaged, or has another envelope or format than configured, an unknown operation, or an update without the row before it in a table without
    key. Or more of the files or records are invalid than `quarantine:` allows, or no folder matches the pattern of `increments:`.
    """

    advice = """Repair or remove that file, or correct the setting in the message, then run again. The table's other new files wait with it. If a few
        invalid files or records must not stop a table, set [`quarantine:`](sources.md#what-cannot-be-used). `compactor quarantine TABLE` lists
        them."""


class InputUnfinished(InputRefused):
    """Landed files lack the end that their format requires. A young file may still be written and is left for the next run.

    The error is raised if these are the only new files, and they were last written more than 15 minutes ago.
    """

    advice = "Let the sink write the file again, or remove it. If sinks write so slowly, let them write elsewhere and move the finished file."

    def __init__(self, paths: frozenset[str], message: str) -> None:
        super().__init__(message)
        self.paths = paths
        """Paths of the files below the landing root."""


class SchemaRefused(Refused):
    """A schema change that would lose data, or that the table's policy refuses. The increments stay in landing.

    Also a key that is not the table's, a key column that is missing, or one whose type cannot be a key.
    """

    advice = """Look at the change with `compactor schema`, and at the record that the message names. If single values are wrong, declare the
        column's type with [`types:`](sources.md#declared-types): their records go to quarantine, and the table goes on. Otherwise repair the
        producer, rename the column, or allow the change with [`on_schema_change`](sources.md#when-a-schema-changes). After a change of `key:`:
        [rebuild](operations.md#building-a-table-again)."""

    def __init__(self, message: str, decisions: tuple[object, ...] = ()) -> None:
        super().__init__(message)
        self.decisions = decisions
        """All decisions about the change (`core/schema/policy.py`), those that refuse it among them."""


class OrderRefused(Refused):
    """Positions that cannot be compared: it is unknown which of two changes of a row is newer.

    The order is not configured and not in the records, an order column is null, or `order_by` is not what it was for earlier versions.
    """

    advice = """Set `order_by:` to columns that grow with every change ([sources](sources.md)). If it was changed, put the old one back, or
        [rebuild](operations.md#building-a-table-again) the table with the new one."""


class CheckFailed(Refused):
    """Staged data broke an invariant; nothing was committed.

    A key is null or occurs twice, counts do not add up, or more rows would go than `max_gone` allows. In the outcome `blocked` a rule of
    `checks:` does not hold: that version is committed and not shown ([blocked](#blocked)).
    """

    advice = """Null keys: repair the source. `max_gone`: look whether the source lost these rows; if
        they may go, raise the limit for one run. Otherwise please report it: the input is still in landing."""


class CatalogRefused(Refused):
    """The catalog has an object that is not ours, or ours at another location; or it denies access.

    For example a table with the view's name, or a view of another incarnation of the table.
    """

    advice = "Rename that object, set another name with `view:`, or drop what is obsolete; `compactor publish --dry-run` shows what would be created."


class RegistryRefused(Refused):
    """The schema registry refused the request, or the address is no schema registry. The message names address, subject and status."""

    advice = "Correct credentials, rights, the version, or the address with its path ([schema registries](sources.md#schema-registries))."


class StateRefused(Refused):
    """The table's own state cannot be read: a Snapshot is damaged, has another format, or is gone."""

    advice = """Another format: install the version that wrote it, or a newer one ([versions](operations.md#versions-and-upgrades)). Damaged or gone:
        restore the object that the message names from a backup or from the bucket's object versions; the next run goes on as if nothing had
        happened. A newest Snapshot that nobody has any more: [lost Snapshots](operations.md#lost-snapshots). Do not edit these files."""


class TryLater(CompactorError):
    """The same command may succeed later, for example after a publish that took longer than `publish_window`."""

    exit_code = 75
    advice = "Run again. A scheduler may do so by itself: exit code 75 means that nothing has to be repaired."


class Conflict(TryLater):
    """Another writer committed first, five times in a row; or files in landing keep changing while they are read."""

    advice = "Run again. If it happens often, look for a second scheduler, or for a sink that rewrites files."


class RequirementFailed(Conflict):
    """The newest version does not meet the requirements of a change, for example after a restore by somebody else.

    A restore or rebuild was overtaken: another version is the newest now, or vacuum deleted the files of the rebuild.
    """

    advice = "Look at `compactor log TABLE`, decide whether the restore or rebuild is still what you want, then repeat it."


class NoRowsYet(TryLater):
    """Nothing is committed yet: the table has not run, or only records without rows (heartbeats, tombstones) have landed. They stay in landing.

    `compactor run` reports such a table as `idle`, with exit code 0. A command that needs a version ends with this error before the first one.
    """

    advice = "Run the table: `compactor run TABLE`. `compactor plan TABLE` shows what has landed."


class Busy(TryLater):
    """Another process uses the resource, such as the embedded metastore. The message names it."""

    advice = "Wait: `--wait SECONDS` does. For several processes at a time use a metastore over Thrift, or Glue (`catalog:`)."


class Stopped(TryLater):
    """Ctrl-C or SIGTERM ended the run, or somebody cancelled a Spark job. What was committed by then is published."""

    exit_code = 130
    advice = "Run again: the next run does the rest."


class Unavailable(TryLater):
    """A service did not answer: storage, the metastore, Glue, a schema registry, or Spark's JVM. Calls to AWS were repeated before."""

    advice = "Run again. If it stays, check that service, the network to it, and for Spark's JVM the memory of the machine."


class EngineEnded(Unavailable):
    """Spark's JVM has ended, most often for want of memory. `compactor run` starts another one and tries the table once more.

    If the next run ends in the same way on the same files, the table has failed, and the error names them.
    """

    advice = """Exit code 52 means that Spark's heap is full: raise `COMPACTOR_DRIVER_MEMORY`. SIGKILL means that the machine has too little memory:
        use a larger one, or lower `--parallel` or `COMPACTOR_DRIVER_MEMORY`. If it is always the same table, look at its new files: a record may be
        larger than memory ([limits](sources.md#limits)). Such a file can be moved out of landing."""


class InconsistentRead(Unavailable):
    """Spark's view of the store contradicts ours.

    A landed file, or a directory of the table, is not what we listed or wrote
    ([why this is checked](design/spark.md#truncated-responses-between-spark-and-s3)).
    """

    advice = "Run again. If it persists, `compactor verify TABLE` shows whether files of the table are missing; a rebuild writes them again."


def exit_code(codes: Iterable[int]) -> int:
    """Return the exit code of a command whose tables ended with these codes: 130 (stopped) before 1 (failed) before 75 (try again later)."""
    ended = {*codes}
    return next((code for code in (Stopped.exit_code, CompactorError.exit_code, TryLater.exit_code) if code in ended), 0)
