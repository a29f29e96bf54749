"""`compactor sql`: run SQL statements, of the command line, of standard input, or as they are typed."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from compactor.cli import grid, options
from compactor.cli.options import Call, Format
from compactor.core.catalog import statements
from compactor.core.model.errors import CompactorError, see
from compactor.core.settings import command_line as declared

PROMPT, MORE = "sql> ", "...> "
ENDS = ("exit", "quit", "\\q")
HELPS = ("help", "\\?", "\\h")
LISTS = ("\\d", "\\dt")
"""What people who know psql type for `show tables`."""
HELP = """End a statement with `;`. It may take several lines.
  show tables;        the tables and views of the configuration
  describe NAME;      the columns of one
  exit                ends, as Ctrl-D does; Ctrl-C drops what was typed
The Tab key completes names, the arrow keys bring earlier statements back."""
HISTORY_LINES = 2_000

Words = Callable[[str], Collection[str]]
"""Returns the words that may complete a statement typed so far."""


class Engine(str, Enum):
    """What runs a statement."""

    auto = "auto"
    duckdb = "duckdb"
    spark = "spark"


EngineName = Annotated[
    Engine,
    typer.Option(
        "--engine",
        help="duckdb answers at once and reads the tables of the configuration; spark reads and changes everything in the catalog. "
        "auto: duckdb for queries of these tables that mean the same in both, spark for anything else.",
    ),
]
AsOf = Annotated[
    str | None, options.option(declared.AS_OF, "Read the tables as of a source time: ISO 8601, UTC unless it has a zone. Needs `history: true`.")
]


@options.command(form=Format)
def sql(
    call: Call,
    statement: Annotated[
        str | None,
        typer.Argument(
            metavar="STATEMENT",
            help="SQL statements, separated by `;`, in quotes (default: those that are typed, or standard input).",
            show_default=False,
        ),
    ] = None,
    as_of: AsOf = None,
    engine: EngineName = Engine.auto,
) -> None:
    """Run SQL statements.

    They run in the configured database, one after the other, until one fails. Queries show the newest versions; of a table with `checks:` the newest
    that passed. In JSON, decimals are numbers, timestamps are ISO 8601 in UTC, and binary values are base64. In CSV, null is an empty field and "" an
    empty text. Text and CSV have control characters, and marks that turn the direction of text, escaped as in \\x1b; CSV keeps tabs and line ends.

    Without a statement you type them, each ended with `;`, in one process: the engine starts once. The Tab key completes names of tables and
    columns, the arrow keys bring earlier statements back, also those of earlier days. Ctrl-C drops what was typed, Ctrl-D or `exit` ends. If
    standard input is a file, its statements run until one fails, or up to `exit`.

    \b
    Example:
      compactor sql "select * from student limit 5"
      compactor sql "select id, email from student" --output csv --config compactor.yaml > students.csv
      compactor sql "describe student; select count(*) from student" --output json
      compactor sql --as-of "2026-11-20 14:00" "select count(*) from student"
      compactor sql --engine spark "create view adults as select * from student where age >= 18"
      compactor sql
      compactor sql --output csv < monthly.sql > monthly.csv
    """

    def run(text: str) -> None:
        rows = call.app.sql(text, as_of, engine.value)
        if call.json:
            grid.rows_as_json(rows)
        elif call.output is Format.csv:
            grid.rows_as_csv(rows.columns, rows)
        else:
            grid.rows_as_text(rows.columns, rows)
        sys.stdout.flush()

    escapes = engine is not Engine.duckdb
    if statement is None and sys.stdin.isatty():
        _loop(run, call.app.sql_words, escapes)
        return
    texts = statements.split(sys.stdin.read(), escapes) if statement is None else statements.split(statement, escapes) or [statement]
    for at, text in enumerate(texts):
        if statement is None and text.strip().lower() in ENDS:
            return
        if at and statement is not None and not call.json:
            print()
        run(text)


# ---- the prompt ------------------------------------------------------------------------------------------------------


def _loop(run: Callable[[str], None], words: Words, escapes: bool) -> None:
    """Read and run statements until the end of input. An error is printed and ends nothing. `escapes`: see `statements.split`."""
    typed = ""
    with _readline(lambda: typed, words):
        while True:
            try:
                line = input(MORE if typed else PROMPT)
            except KeyboardInterrupt:
                print()
                typed = ""
                continue
            except EOFError:
                print()
                return
            word = "" if typed else line.strip().rstrip(";").lower()
            if word in ENDS:
                return
            if word in HELPS:
                print(HELP)
                continue
            typed += ("show tables;" if word in LISTS else line) + "\n"
            if not statements.unfinished(typed, escapes):
                for text in statements.split(typed, escapes):
                    _run(run, text)
                typed = ""


def _run(run: Callable[[str], None], text: str) -> None:
    began = time.monotonic()
    try:
        run(text)
        print(f"({time.monotonic() - began:.2f} s)", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    except CompactorError as error:
        grid.print_message(f"{error}\n{see(error.id)}", sys.stderr)


@contextlib.contextmanager
def _readline(typed: Callable[[], str], words: Words) -> Iterator[None]:
    """Switch on line editing, history and completion while the block runs, where Python has readline."""
    try:
        import readline
    except ImportError:
        yield
        return
    path = history_file()
    with contextlib.suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(HISTORY_LINES)
    readline.set_completer_delims(" \t\n,;()=<>'\"")
    readline.set_completer(Completer(readline, typed, words))
    readline.parse_and_bind("bind ^I rl_complete" if "libedit" in (readline.__doc__ or "") else "tab: complete")
    try:
        yield
    finally:
        readline.set_completer(None)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(path)


class Completer:
    """Completes the word before the cursor."""

    def __init__(self, readline: ModuleType, typed: Callable[[], str], words: Words) -> None:
        self._readline, self._typed, self._words = readline, typed, words
        self._matches: list[str] = []

    def __call__(self, begin: str, number: int) -> str | None:
        """Return the match with this number, None after the last one."""
        if number == 0:
            statement = self._typed() + self._readline.get_line_buffer()
            try:
                self._matches = sorted(word for word in self._words(statement) if word.startswith(begin.lower()))
            except CompactorError:
                self._matches = []
        return self._matches[number] if number < len(self._matches) else None


def history_file() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(state) / "compactor" / "sql_history"
