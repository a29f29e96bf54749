"""Options of several commands, and the commands that also run on a cluster. `compactor.cli` (Typer) and `compactor.job` (argparse) read them."""

from __future__ import annotations

from dataclasses import dataclass

LOG_FORMAT_VARIABLE = "COMPACTOR_LOG_FORMAT"


@dataclass(frozen=True)
class Option:
    """An option, which has the same names and the same meaning in every command."""

    names: tuple[str, ...]
    help: str
    kind: type = bool
    """Type of its value; bool for a switch."""
    metavar: str | None = None
    least: int | None = None
    choices: tuple[str, ...] = ()
    variable: str | None = None
    """The environment variable that it is read from if the command line does not have it."""


CONFIG = Option(("--config", "-c"), "Configuration file.", str, "PATH", variable="COMPACTOR_CONFIG")
OUTPUT = Option(("--output", "-o"), "Output format.", str, choices=("text", "json"))
VERBOSE = Option(("--verbose", "-v"), "Show every row and column, however many and wide, log lines, Spark's log, and tracebacks.")
WAIT = Option(("--wait",), "How long to wait if another process uses the embedded metastore.", float, "SECONDS", least=0)
LOG_FORMAT = Option(("--log-format",), "Format of log lines, on standard error.", str, choices=("text", "json"), variable=LOG_FORMAT_VARIABLE)
LABEL = Option(("--label",), "A name for this run, kept in its Snapshots.", str, "TEXT")
PARALLEL = Option(("--parallel", "-p"), "Number of tables at a time (default: by the number of cores).", int, "N", least=1)
COMPACT = Option(("--compact",), "Also compact now, whatever `compact_every`, `compact_window` and `compact_budget` are.")
FILES_ONLY = Option(("--files-only",), "Only checks that need no Spark.")
DEEP = Option(("--deep",), "Also read every file of every kept version, and compare the size of every raw file.")
DELETE = Option(("--run",), "Delete. Without this option: dry run.")
AS_OF = Option(("--as-of",), "A version's number, or the newest version of a time: ISO 8601, UTC unless it has a zone.", str, "VERSION|TIME")
ACCEPT_DIFFERENCES = Option(("--accept-differences",), "Publish even if rows differ.")
ACCEPT_FEWER = Option(("--accept-fewer-rows",), "With --accept-differences: publish even if less than half of the rows are left.")
DRY_RUN = Option(("--dry-run",), "Compute and compare everything, change nothing.")
REPLAY = Option(("--replay",), "Read these files again, after their cause is repaired.")


@dataclass(frozen=True)
class ClusterCommand:
    """A command that a job on a cluster runs, too."""

    words: tuple[str, ...]
    options: tuple[Option, ...]
    """Its options but `ON_CLUSTER`, which every command has there."""
    one: bool = False
    """Whether it has one table; else any number, and all tables of the job without one."""

    @property
    def name(self) -> str:
        return " ".join(self.words)


ON_CLUSTER = (OUTPUT, VERBOSE, LOG_FORMAT)

RUN = ClusterCommand(("run",), (PARALLEL, COMPACT, LABEL))
VERIFY = ClusterCommand(("verify",), (FILES_ONLY, DEEP))
VACUUM = ClusterCommand(("versions", "vacuum"), (DELETE, LABEL))
REBUILD = ClusterCommand(("rebuild",), (AS_OF, ACCEPT_DIFFERENCES, ACCEPT_FEWER, DRY_RUN, LABEL), one=True)
QUARANTINE = ClusterCommand(("quarantine",), (REPLAY, LABEL), one=True)
CLUSTER_COMMANDS = (RUN, VERIFY, VACUUM, REBUILD, QUARANTINE)
