"""The program: registers the commands, and turns errors into one message and an exit code.

Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 75 try again later, 130 stopped by Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import sys
import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from compactor import __version__
from compactor.cli import demo, grid, init, reconcile, run, schema, show, sql, versions
from compactor.core.model.errors import UNEXPECTED, CompactorError, see

FORMER = {
    "compact": "run --compact",
    "shell": "sql",
    "files": "log TABLE --files",
    "sync": "publish",
    "vacuum": "versions vacuum",
    "restore": "versions restore",
    "pin": "versions pin",
    "schema diff": "schema TABLE",
    "schema check": "schema TABLE --next FILE",
    "schema history": "schema TABLE --history",
    "schema notify": "schema --notify",
    "quarantine list": "quarantine",
    "quarantine show": "quarantine TABLE",
    "quarantine replay": "quarantine TABLE --replay",
    "quarantine discard": "quarantine TABLE PATH --discard",
}
"""Names that commands had before, and what to type instead."""


class Commands(TyperGroup):
    """The commands. Refuses a name that a command had before with its present one."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return name, command and arguments of a command line."""
        for words in (" ".join(args[:2]), args[0]):
            if words in FORMER:
                ctx.fail(f"`compactor {words}` is now `compactor {FORMER[words]}`.")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="compactor",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="""Keep plain-Parquet Hive tables up to date from change data capture files.

\b
Example:
  compactor demo                           try it with a captured PostgreSQL database
  compactor plan --config compactor.yaml   show what a run would do
  compactor run --config compactor.yaml    do it
  compactor sql "select count(*) from student" --config compactor.yaml
""",
)


def _version(shown: bool) -> None:
    if shown:
        print(f"compactor {__version__}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")]


@app.callback()
def _program(version: Version = False) -> None:
    # the help text is that of `app`
    pass


for command in (demo.demo, init.init, show.plan):
    app.command()(command)
# who looks for what is wrong types `check`, who looks for what will happen types `plan`: the answer is one
app.command("check", hidden=True)(show.plan)
for command in (
    *(run.run, show.status, show.report, show.explain, show.log, sql.sql, show.changes, show.verify, reconcile.reconcile, schema.publish),
    *(versions.rebuild, versions.adopt, versions.erase, versions.reencrypt, run.quarantine, run.ingest, init.package, schema.schema),
):
    app.command()(command)
app.add_typer(versions.commands, name="versions")


def main() -> None:
    """Run the command line. Every error becomes one message on stderr, the line that leads to its explanation, and an exit code."""
    verbose = bool({"-v", "--verbose"} & set(sys.argv[1:]))
    try:
        app()
    except KeyboardInterrupt:
        _print_error("stopped by Ctrl-C. What is committed stays.", verbose)
        sys.exit(130)
    except CompactorError as error:
        _print_error(f"{error}\n{see(error.id)}", verbose)
        sys.exit(error.exit_code)
    except Exception as error:
        try:
            reason = (str(error).strip() or "no message").splitlines()[0]
        except Exception:
            # the text of a JVM's error is read from the JVM, which may have ended
            reason = "no message"
        hint = "" if verbose else " (-v shows where)"
        _print_error(f"unexpected {type(error).__name__}: {reason[:500]}{hint}\n{see(UNEXPECTED)}", verbose)
        sys.exit(1)


def _print_error(text: str, verbose: bool) -> None:
    if verbose:
        traceback.print_exc()
    grid.print_message(f"compactor: {text}", sys.stderr)


if __name__ == "__main__":
    main()
