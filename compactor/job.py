"""The program that runs on a cluster: it takes some commands of `compactor` (`core.settings.command_line`) with a JobConfig for compactor.yaml.

    spark-submit --py-files compactor.zip main.py --job-config s3://code/plans/x.json --report s3://logs/jobs/reports/x run student --output json

`--job-config` is a location, or the JSON itself. The result goes to standard output and to `report.json` below `--report`, together with the exit
code and the last lines of the log. The log goes to standard error and, while the job runs, to `log.txt` beside the report.

It needs only the standard library, PySpark and boto3. `compactor package` puts this module and everything it imports into the zip.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

from compactor.aws.emr import metastore_conf
from compactor.core.model.errors import UNEXPECTED, CompactorError, ConfigError, Refused, Unavailable, exit_code, see
from compactor.core.model.layout import join
from compactor.core.model.spec import TableSpec
from compactor.core.results.notice import Message, Target
from compactor.core.settings.command_line import CLUSTER_COMMANDS, ON_CLUSTER, QUARANTINE, REBUILD, RUN, VACUUM, Option
from compactor.core.settings.job_config import JobConfig
from compactor.core.settings.s3 import S3Settings
from compactor.flows import logs
from compactor.flows.keep.vacuum import vacuum, vacuum_if_due
from compactor.flows.read.verify import verify
from compactor.flows.run_tables import run_tables
from compactor.flows.verbs import rebuild_table, replay_table
from compactor.flows.write import restore
from compactor.runtime import Runtime
from compactor.storage.routed import any_storage

log = logging.getLogger(__name__)

REPORT, LOG = "report.json", "log.txt"

LOG_SECONDS = 15.0
"""Interval at which the log is written there."""

PARALLEL = 2
"""Tables at a time. The driver of a job has few cores."""

_LINES_KEPT, _LAST_LINES = 5000, 100
_UNEXPECTED = 1


def parser() -> argparse.ArgumentParser:
    """Return the parser of the commands that are declared for clusters, with the options that `compactor` has, too."""
    main_parser = argparse.ArgumentParser(prog="compactor")
    main_parser.add_argument("--job-config", required=True, help="the JobConfig: a location, or JSON")
    main_parser.add_argument("--report", default="", help="directory that gets report.json and log.txt")
    groups: dict[tuple[str, ...], Any] = {(): main_parser.add_subparsers(required=True)}
    for command in CLUSTER_COMMANDS:
        group, word = command.words[:-1], command.words[-1]
        if group not in groups:
            groups[group] = groups[()].add_parser(group[0]).add_subparsers(required=True)
        words = groups[group].add_parser(word)
        words.set_defaults(command=command, label="")
        words.add_argument("tables", nargs=1 if command.one else "*", metavar="TABLE")
        for option in (*command.options, *ON_CLUSTER):
            words.add_argument(*option.names, help=option.help, **_form(option))
    return main_parser


def _form(option: Option) -> dict[str, Any]:
    if option.kind is bool:
        return {"action": "store_true"}
    environment = os.environ.get(option.variable) if option.variable else None
    return {"type": option.kind, "metavar": option.metavar, "choices": option.choices or None, "default": environment}


def runtime(config: JobConfig, verbose: bool = False) -> Runtime:
    """Return the ports of a job: the cluster's Spark, and the schemas that were sent with the job."""

    def schema(number: int) -> str:
        text = config.schema(number)
        if text is None:
            raise Unavailable(f"records name the schema {number}, which the registry did not have when this job was sent. Run again.")
        return text

    def session() -> Any:
        from compactor.spark.session import SessionSettings, open_session

        conf = metastore_conf(config.catalog, config.catalog_id, config.metastore_uri)
        encrypted, form, more = not all(spec.quotes_records for spec in config.specs), config.specs[0].parquet, tuple(conf.items())
        return open_session(
            SessionSettings(config.metastore_uri, None, config.warehouse, verbose=verbose, conf=more, parquet=form, encrypted=encrypted)
        )

    return Runtime(config, session, schema if config.schemas else None, notify)


def chosen(config: JobConfig, names: Sequence[str]) -> list[TableSpec]:
    """Return the named tables, or all tables if none is named. Raises ConfigError for a table that is not in the job's configuration."""
    by_name = {spec.name: spec for spec in config.specs}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise ConfigError(f"table {unknown[0]} is not in the configuration of this job; it has {', '.join(by_name)}")
    return [by_name[name] for name in dict.fromkeys(names or by_name)]


def notify(target: Target, message: Message) -> None:
    """Send a message to the log or to SNS. Raises Refused for other targets, which only the machine with compactor.yaml can reach."""
    kind, *words = target
    if kind == "log":
        from compactor.notify.local import to_log

        to_log(message)
    elif kind == "sns":
        from compactor.notify.sns import to_sns

        to_sns(words[0], message)
    else:
        raise Refused(
            f"{kind}: messages to this target cannot be sent from a cluster. `compactor schema --notify` or the DAG sync_schemas sends them"
            " from the machine that has compactor.yaml."
        )


def answer(here: Runtime, arguments: argparse.Namespace) -> tuple[Any, int]:
    """Run the command. Return the result that the command line would print, as plain values, and the exit code."""
    specs = chosen(here.config, arguments.tables)
    command = arguments.command
    if command in (RUN, QUARANTINE, REBUILD):
        here.check_commits()
    if command == RUN:
        return _ran(here, specs, arguments)
    if command == QUARANTINE:
        if not arguments.replay:
            raise Refused("quarantine: a cluster only replays; list and discard files where compactor.yaml is")
        report = replay_table(here.table(specs[0], label=arguments.label))
        return report.to_json(), report.exit_code
    if command == REBUILD:
        return _rebuilt(here, specs[0], arguments)
    return _each(here, specs, arguments)


def _ran(here: Runtime, specs: Sequence[TableSpec], arguments: argparse.Namespace) -> tuple[Any, int]:
    specs = [spec.compacting_now if arguments.compact else spec for spec in specs]

    def start(busy: Sequence[TableSpec], size: int) -> None:
        # before the tables: each puts its Spark jobs into a pool of its own
        here.spark()

    reports = run_tables(here.environment(), specs, parallel=arguments.parallel or PARALLEL, label=arguments.label, start=start)
    # whoever sent the job sends its measures when it has ended
    return [report.to_json() for report in reports], exit_code(report.exit_code for report in reports)


def _rebuilt(here: Runtime, spec: TableSpec, arguments: argparse.Namespace) -> tuple[Any, int]:
    target = restore.named(here.table(spec, files_only=True), arguments.as_of)
    fewer = arguments.accept_fewer_rows
    built = rebuild_table(here.table(spec, label=arguments.label), target, arguments.accept_differences, arguments.dry_run, fewer)
    log.log(logging.ERROR if built.exit_code else logging.INFO, "compactor: %s: %s", spec.name, "; ".join(built.sentences))
    return built.to_json(), built.exit_code


def _each(here: Runtime, specs: Sequence[TableSpec], arguments: argparse.Namespace) -> tuple[Any, int]:
    """Vacuum or verify table by table. A table that fails does not stop the others."""
    results: list[Any] = []
    codes, ok = [], True
    for spec in specs:
        try:
            if arguments.command == VACUUM:
                done = vacuum_if_due(here.table(spec, label=arguments.label)) if arguments.run else vacuum(here.table(spec, files_only=True), True)
                results.append(done.to_json())
                continue
            checks = verify(here.table(spec, files_only=arguments.files_only), arguments.deep)
        except CompactorError as error:
            codes.append(error.exit_code)
            log.error("compactor: %s: %s (%s)", spec.name, error, see(error.id))
            continue
        ok = ok and all(check.ok for check in checks)
        results += [check.to_json() for check in checks]
    return results, exit_code(codes) or (0 if ok else 1)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line `words`, write the report, and return the exit code."""
    arguments = parser().parse_args(words)
    journal = Journal(arguments.report)
    try:
        code, output = _run(arguments, journal)
    finally:
        journal.close()
    print(output, flush=True)
    journal.report(code, output)
    return code


def _run(arguments: argparse.Namespace, journal: Journal) -> tuple[int, str]:
    journal.open(logging.DEBUG if arguments.verbose else logging.INFO, arguments.log_format or logs.TEXT, arguments.label)
    log.info("%s of %s, on Python %s", arguments.command.name, os.path.dirname(os.path.dirname(os.path.abspath(__file__))), sys.version.split()[0])
    try:
        here = runtime(_job_config(arguments.job_config), arguments.verbose)
        try:
            result, code = answer(here, arguments)
        finally:
            here.close()
        return code, json.dumps(result, indent=2, ensure_ascii=False)
    except CompactorError as error:
        log.error("compactor: %s (%s)", error, see(error.id))
        return error.exit_code, ""
    except Exception as error:
        log.exception("unexpected error")
        log.error("compactor: unexpected %s: %s (%s)", type(error).__name__, str(error)[:500], see(UNEXPECTED))
        return _UNEXPECTED, ""


def _job_config(value: str) -> JobConfig:
    """Read the configuration from a location, or from `value` itself if it is JSON."""
    if value.lstrip().startswith("{"):
        return JobConfig.read(value.encode())
    try:
        return JobConfig.read(any_storage(S3Settings()).read(value))
    except FileNotFoundError:
        raise ConfigError(f"the job configuration: expected a file at {value}, found nothing") from None


class Journal(logging.Handler):
    """Log handler that prints to standard error and writes the log below a directory, every `LOG_SECONDS` if it has grown."""

    def __init__(self, directory: str) -> None:
        super().__init__()
        self._directory, self._storage = directory, any_storage(S3Settings())
        self._lines: deque[str] = deque(maxlen=_LINES_KEPT)
        self._written = self._emitted = 0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def open(self, level: int, form: str, run: str) -> None:
        """Start to receive log records of this level, and to write them in this format. `run`: the label of the run."""
        logs.configure(self, form, level, run)
        if self._directory:
            self._thread = threading.Thread(target=self._keep_writing, daemon=True, name="compactor-log")
            self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Print and keep one record, which may have several lines."""
        text = self.format(record)
        print(text, file=sys.stderr, flush=True)
        self._lines.extend(text.split("\n"))
        self._emitted += 1

    def close(self) -> None:
        logging.getLogger().removeHandler(self)
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        super().close()

    def report(self, code: int, output: str) -> None:
        """Write exit code, output and last lines to the report, which the submitter reads."""
        if self._directory:
            report = {"code": code, "output": output, "errors": "\n".join([*self._lines][-_LAST_LINES:])}
            place = join(self._directory, REPORT)
            self._storage.write(place, json.dumps(report, ensure_ascii=False).encode())

    def _keep_writing(self) -> None:
        place = join(self._directory, LOG)
        while True:
            ended = self._ended.wait(LOG_SECONDS)
            if self._emitted > self._written:
                emitted, lines = self._emitted, [*self._lines]
                try:
                    self._storage.write(place, "".join(f"{line}\n" for line in lines).encode())
                    self._written = emitted
                except CompactorError as error:
                    # the cluster keeps standard error, which has the same lines
                    print(f"the log could not be written: {error}", file=sys.stderr, flush=True)
            if ended:
                return


if __name__ == "__main__":
    sys.exit(main())
