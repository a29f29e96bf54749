"""What every command has: its options, the App that it calls, and how it answers."""

from __future__ import annotations

import inspect
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, TextIO, TypeVar

import typer

from compactor.cli import console
from compactor.core.model.errors import CompactorError, ConfigError, Refused, exit_code
from compactor.core.model.spec import TableSpec
from compactor.core.results.record import TableReport
from compactor.core.results.reports import Progress
from compactor.core.settings import command_line as declared
from compactor.core.settings.command_line import Option
from compactor.flows import logs

_T = TypeVar("_T")


class Output(str, Enum):
    """Forms of an answer, and of log lines."""

    text = "text"
    json = "json"


class Format(str, Enum):
    """Forms of rows."""

    text = "text"
    json = "json"
    csv = "csv"


def option(declaration: Option, help: str | None = None) -> Any:
    """Return Typer's form of a declared option. `help`: what it means in this command, where that differs."""
    limits: dict[str, Any] = {} if declaration.least is None else {"min": declaration.least}
    shown = declaration.metavar is not None and declaration.kind is not str
    return typer.Option(
        *declaration.names, help=help or declaration.help, metavar=declaration.metavar, envvar=declaration.variable, show_default=shown, **limits
    )


DEFAULT = Path("compactor.yaml")
WAIT_SECONDS = 60.0
AT_ONCE = 16
"""Tables in S3 that are looked at, at a time."""
ConfigFile = Annotated[Path, typer.Option(*declared.CONFIG.names, metavar="PATH", envvar=declared.CONFIG.variable, help=declared.CONFIG.help)]
OutputForm = Annotated[Output, typer.Option(*declared.OUTPUT.names, help=declared.OUTPUT.help)]
Verbose = Annotated[bool, option(declared.VERBOSE)]
Wait = Annotated[float, option(declared.WAIT)]
LogForm = Annotated[Output, typer.Option(*declared.LOG_FORMAT.names, envvar=declared.LOG_FORMAT.variable, help=declared.LOG_FORMAT.help)]
Label = Annotated[str, option(declared.LABEL)]
Tables = Annotated[list[str] | None, typer.Argument(metavar="TABLE", help="Tables (default: all).", show_default=False)]
OneTable = Annotated[str, typer.Argument(metavar="TABLE", help="The table.", show_default=False)]
Parallel = Annotated[int | None, option(declared.PARALLEL)]
DryRun = Annotated[bool, option(declared.DRY_RUN)]
AsOf = Annotated[str | None, option(declared.AS_OF)]
Limit = Annotated[int, typer.Option("--limit", "-n", metavar="N", min=0, help="Show the N newest; 0 = all.")]
Every = Annotated[
    float | None, typer.Option("--every", metavar="SECONDS", min=0.1, help="Do it again every so many seconds, until Ctrl-C.", show_default=False)
]


@dataclass
class Call:
    """A command that was called: the App, and how to answer."""

    open: Callable[[], Any]
    output: Enum
    verbose: bool
    label: str

    @cached_property
    def app(self) -> Any:
        """Return the App. The configuration is read when a command first needs it, after its other options were checked."""
        return self.open()

    @property
    def json(self) -> bool:
        """Whether the answer is a JSON document."""
        return bool(self.output.value == Output.json.value)

    def answer(self, value: Any, as_text: Callable[[], object]) -> None:
        """Print a value, or a list of them, as JSON, or what `as_text` prints."""
        if self.json:
            console.as_json([_plain(item) for item in value] if isinstance(value, list) else _plain(value))
        else:
            as_text()
        # a command that goes on, in a pipe: each answer is read when it is given
        sys.stdout.flush()

    def progress(self, tables: int = 1) -> AbstractContextManager[Progress]:
        """Return a context that shows the progress of so many tables."""
        return console.progress(tables, quiet=self.json)

    def each(
        self, tables: Iterable[str] | None, call: Callable[[list[str]], list[_T]], *harmless: type[CompactorError], reads: bool = False
    ) -> tuple[list[_T], int]:
        """See `each`; of these tables (default: all). `reads`: the calls only read files. In S3 these mostly wait, so several are made at once."""
        return each(self.app.specs(tables or ()), call, harmless, AT_ONCE if reads and self.app.settings.uses_s3 else 1)


def _plain(value: Any) -> Any:
    return value.to_json() if hasattr(value, "to_json") else value


def command(label: bool = False, form: type[Enum] = Output) -> Callable[[Callable[..., int | None]], Callable[..., None]]:
    """Return a decorator that makes a function (Call, its own options) → exit code a command with the options that all commands have.

    `label`: whether it has `--label`; `form`: the forms of its output.
    """

    def decorate(function: Callable[..., int | None]) -> Callable[..., None]:
        own = [*inspect.signature(function, eval_str=True).parameters.values()][1:]

        def run(**given: Any) -> None:
            config, output, wait, verbose, log_format = (given.pop(name) for name in ("config", "output", "wait", "verbose", "log_format"))
            name = given.pop("label", "")
            with ExitStack() as stack:
                code = function(Call(lambda: stack.enter_context(opened(config, verbose, wait, log_format, name)), output, verbose, name), **given)
            if code:
                raise typer.Exit(code)

        shared: list[tuple[str, Any, Any]] = [
            ("config", ConfigFile, DEFAULT),
            ("output", Annotated[form, typer.Option(*declared.OUTPUT.names, help=declared.OUTPUT.help)], form("text")),
            *([("label", Label, "")] if label else []),
            ("wait", Wait, WAIT_SECONDS),
            ("verbose", Verbose, False),
            ("log_format", LogForm, Output.text),
        ]
        more = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=value, annotation=kind) for name, kind, value in shared]
        run.__name__, run.__doc__ = function.__name__, function.__doc__
        run.__signature__ = inspect.Signature([*own, *more])  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in (*own, *more)}
        return run

    return decorate


def repeated(look: Callable[[], object], seconds: float | None, title: bool = False) -> None:
    """Call `look` once, or every so many seconds until Ctrl-C. `title`: clear the terminal before each."""
    while True:
        if title and seconds is not None:
            console.clear(f"every {seconds:g} s; Ctrl-C ends")
        look()
        if seconds is None:
            return
        time.sleep(seconds)


def write_file(path: Path, text: str) -> None:
    """Write a whole file, or nothing. Raises Refused."""
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise Refused(f"{path}: cannot be written: {error.strerror}") from None


def opened(config: Path, verbose: bool = False, wait: float = 0.0, log_format: str = "", run: str = "") -> Any:
    """Return the App of a command, and begin to log. `run`: the label of the run. Tests replace this function."""
    from compactor.app import App

    log_to_stderr(verbose, log_format, run)
    app = App.open(config, verbose=verbose, wait=wait)
    app.starting = console.starting
    return app


def log_to_stderr(verbose: bool = False, form: str = "", run: str = "") -> None:
    """Log to standard error: on a terminal warnings only, because progress is shown there; else what each phase did. `run`: the label of the run."""
    form = form or os.environ.get(declared.LOG_FORMAT_VARIABLE) or logs.TEXT
    quiet = sys.stderr.isatty() and not verbose and form != logs.JSON
    logs.configure(_Stderr(), form, logging.WARNING if quiet else logging.INFO, run, bare=quiet)


class _Stderr(logging.StreamHandler[TextIO]):
    """Writes to what `sys.stderr` is at the moment: while bars are shown, lines go above them."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


def each(
    specs: Iterable[TableSpec], call: Callable[[list[str]], list[_T]], harmless: tuple[type[CompactorError], ...] = (), at_once: int = 1
) -> tuple[list[_T], int]:
    """Call a function for each table, `at_once` at a time. Return all results in the order of the tables, and the exit code.

    An error of one table is printed on stderr, and the other tables are still done. Errors of the kinds in `harmless` do not change the exit
    code. Raises ConfigError, which does not belong to one table.
    """
    results: list[_T] = []
    errors: list[TableReport] = []
    codes: set[int] = set()

    def called(spec: TableSpec) -> list[_T] | CompactorError:
        try:
            return call([spec.name])
        except ConfigError:
            raise
        except CompactorError as error:
            return error

    with ThreadPoolExecutor(at_once) as pool:
        every = [*specs]
        # in this thread where nothing is gained by others: what a call opens may belong to it
        for spec, result in zip(every, pool.map(called, every) if at_once > 1 else map(called, every)):
            if isinstance(result, CompactorError):
                errors.append(TableReport(spec.name, "failed", error=str(result), error_id=result.id))
                codes |= set() if isinstance(result, harmless) else {result.exit_code}
            else:
                results += result
    console.print_errors(errors)
    return results, exit_code(codes)
