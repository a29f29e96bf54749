"""The program that runs on a cluster: it takes the arguments of the command line, and a JobConfig for everything else.

    spark-submit --py-files compactor.zip main.py --job-config s3://code/plans/x.json --report s3://logs/jobs/reports/x run student --output json

`--job-config` is a location, or the JSON itself. The answer goes to standard output and, as `report.json` with exit code and last words, below
`--report`; the log goes to standard error and, as it grows, to `log.txt` beside. It needs the standard library, PySpark and boto3 (H30), and what
it imports, followed to its end, is what `compactor package` puts into the zip.
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

from compactor.aws import metrics
from compactor.aws.client import ClientConfig
from compactor.aws.emr import glue_conf, on_emr
from compactor.core.model.errors import CompactorError, ConfigError, Refused, Unavailable
from compactor.core.model.layout import join
from compactor.core.model.spec import TableSpec
from compactor.core.results.notice import Message, Target
from compactor.core.settings.job_config import JobConfig
from compactor.core.settings.s3 import S3Settings
from compactor.flows.keep.vacuum import vacuum
from compactor.flows.read.measure import measure
from compactor.flows.read.verify import verify
from compactor.flows.run import rebuild_table, replay_table, run_tables
from compactor.flows.write import restore
from compactor.ports import Storage
from compactor.runtime import Runtime
from compactor.storage.local import LocalStorage

log = logging.getLogger(__name__)

REPORT, LOG = "report.json", "log.txt"
"""What lies below `--report`."""

LOG_SECONDS = 15.0
"""How often the log is written there."""

_LINES_KEPT, _LAST_LINES = 5000, 100
_UNEXPECTED = 1


def parser() -> argparse.ArgumentParser:
    """The words. They mean what they mean after `compactor`."""
    found = argparse.ArgumentParser(prog="compactor")
    found.add_argument("--job-config", required=True, help="the JobConfig: a location, or JSON")
    found.add_argument("--report", default="", help="directory that gets report.json and log.txt")
    commands = found.add_subparsers(dest="command", required=True)
    for name in ("run", "verify", "vacuum"):
        command = commands.add_parser(name)
        command.add_argument("tables", nargs="*")
        command.add_argument("--output", "-o", choices=["json"], default="json")
        command.add_argument("--verbose", "-v", action="store_true")
        if name != "verify":
            command.add_argument("--label", default="")
    commands.choices["run"].add_argument("--parallel", "-p", type=int, default=2)
    commands.choices["run"].add_argument("--compact", action="store_true")
    commands.choices["verify"].add_argument("--files-only", action="store_true")
    commands.choices["verify"].add_argument("--deep", action="store_true")
    commands.choices["vacuum"].add_argument("--run", action="store_true")
    rebuild = commands.add_parser("rebuild")
    rebuild.add_argument("--as-of")
    rebuild.add_argument("--accept-differences", action="store_true")
    rebuild.add_argument("--dry-run", action="store_true")
    # as `quarantine replay TABLE`
    replay = commands.add_parser("quarantine").add_subparsers(dest="part", required=True).add_parser("replay")
    for command in (rebuild, replay):
        command.add_argument("tables", nargs=1, metavar="TABLE")
        command.add_argument("--output", "-o", choices=["json"], default="json")
        command.add_argument("--verbose", "-v", action="store_true")
        command.add_argument("--label", default="")
    return found


def runtime(config: JobConfig, verbose: bool = False) -> Runtime:
    """Return the ports of a job: Spark as the cluster has it, and the schemas that came with the job."""

    def schema(number: int) -> str:
        found = config.schema(number)
        if found is None:
            # it may have been registered after the job was sent; the next one brings it along
            raise Unavailable(f"records name the schema {number}, which the registry did not have when this job was sent")
        return found

    def session() -> Any:
        from compactor.spark.session import SessionSettings, open_session

        conf = glue_conf(config.catalog_id) if config.catalog == "glue" and on_emr() else {}
        kinds = {spec.timestamps for spec in config.specs}
        timestamps = {"int96": "INT96", "int64": "TIMESTAMP_MICROS"}[kinds.pop()]
        settings = SessionSettings(config.metastore_uri, None, config.warehouse, verbose=verbose, conf=tuple(conf.items()), timestamps=timestamps)
        return open_session(settings)

    return Runtime(config, session, schema if config.schemas else None, notify)


def chosen(config: JobConfig, names: Sequence[str]) -> list[TableSpec]:
    """Return these tables, or all. Raises ConfigError for one that is not in the job's configuration."""
    known = {spec.name: spec for spec in config.specs}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigError(f"table {unknown[0]} is not in the configuration of this job; it has {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(names or known)]


def notify(target: Target, message: Message) -> None:
    """Tell those who can be told from a cluster. Raises Refused for the others: `sync_schemas` tells them, from the edge."""
    kind, *words = target
    if kind == "log":
        from compactor.notify.local import to_log

        to_log(message)
    elif kind == "sns":
        from compactor.notify.sns import to_sns

        to_sns(words[0], message)
    else:
        raise Refused(f"{kind}: not told from a cluster; `compactor schema notify`, or the DAG sync_schemas, does, from where the configuration is")


def answer(here: Runtime, said: argparse.Namespace) -> tuple[Any, int]:
    """Return what the command line prints, as plain values, and its exit code."""
    specs = chosen(here.config, said.tables)
    if said.command in ("run", "quarantine", "rebuild"):
        here.check_commits()
    if said.command == "run":
        specs = [spec.compacting_now if said.compact else spec for spec in specs]
        reports = run_tables(here.environment(), specs, parallel=said.parallel, label=said.label)
        if here.config.metrics is not None:
            namespace, deployment, region = here.config.metrics
            reach = ClientConfig(region, operation_seconds=20.0)
            measure(here.environment(files_only=True), specs, reports, lambda found: metrics.send(found, namespace, deployment, reach))
        return [report.to_json() for report in reports], _code([report.exit_code for report in reports])
    if said.command == "quarantine":
        report = replay_table(here.table(specs[0]), label=said.label)
        return report.to_json(), report.exit_code
    if said.command == "rebuild":
        return _rebuilt(here, specs[0], said)
    return _each(here, specs, said)


def _rebuilt(here: Runtime, spec: TableSpec, said: argparse.Namespace) -> tuple[Any, int]:
    target = restore.named(here.table(spec, files_only=True), said.as_of)
    built = rebuild_table(here.table(spec), target, said.accept_differences, said.dry_run, label=said.label)
    log.log(logging.ERROR if built.exit_code else logging.INFO, "compactor: %s: %s", spec.name, "; ".join(built.sentences))
    return built.to_json(), built.exit_code


def _each(here: Runtime, specs: Sequence[TableSpec], said: argparse.Namespace) -> tuple[Any, int]:
    """Vacuum or verify table by table; one that fails does not stop the others."""
    found: list[Any] = []
    codes, ok = [], True
    for spec in specs:
        try:
            if said.command == "vacuum":
                found.append(vacuum(here.table(spec, files_only=not said.run), not said.run, said.label).to_json())
                continue
            checks = verify(here.table(spec, files_only=said.files_only), said.deep)
        except CompactorError as error:
            codes.append(error.exit_code)
            log.error("compactor: %s: %s", spec.name, error)
            continue
        ok = ok and all(check.ok for check in checks)
        found += [check.to_json() for check in checks]
    return found, _code(codes) or (0 if ok else 1)


def _code(codes: Sequence[int]) -> int:
    return 1 if set(codes) - {0, 75} else 75 if 75 in codes else 0


def main(words: Sequence[str] | None = None) -> int:
    """Run, report, and say the exit code."""
    said = parser().parse_args(words)
    journal = Journal(said.report)
    try:
        code, output = _run(said, journal)
    finally:
        journal.close()
    print(output, flush=True)
    journal.report(code, output)
    return code


def _run(said: argparse.Namespace, journal: Journal) -> tuple[int, str]:
    journal.open(logging.DEBUG if said.verbose else logging.INFO)
    log.info("%s of %s, on Python %s", said.command, os.path.dirname(os.path.dirname(os.path.abspath(__file__))), sys.version.split()[0])
    try:
        here = runtime(_job_config(said.job_config), said.verbose)
        try:
            found, code = answer(here, said)
        finally:
            here.close()
        return code, json.dumps(found, indent=2, ensure_ascii=False)
    except CompactorError as error:
        log.error("compactor: %s", error)
        return error.exit_code, ""
    except Exception as error:
        log.exception("unexpected error")
        log.error("compactor: unexpected %s: %s", type(error).__name__, str(error)[:500])
        return _UNEXPECTED, ""


def _job_config(said: str) -> JobConfig:
    if said.lstrip().startswith("{"):
        return JobConfig.read(said.encode())
    try:
        return JobConfig.read(_store(said).read(said))
    except FileNotFoundError:
        raise ConfigError(f"the job configuration: expected a file at {said}, found nothing") from None


def _store(location: str) -> Storage:
    """A store for single objects of our own: nothing is committed there."""
    if not location.startswith("s3://"):
        return LocalStorage()
    from compactor.storage.s3.storage import S3Storage

    return S3Storage(location, S3Settings().within(os.environ))


class Journal(logging.Handler):
    """The log, on standard error and below a directory; there it is written again every `LOG_SECONDS` that brought something."""

    def __init__(self, directory: str) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(message)s"))
        self._directory = directory
        self._lines: deque[str] = deque(maxlen=_LINES_KEPT)
        self._written = self._told = 0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def open(self, level: int) -> None:
        """Begin to listen, and to write."""
        logger = logging.getLogger("compactor")
        logger.setLevel(level)
        logger.addHandler(self)
        if self._directory:
            self._thread = threading.Thread(target=self._keep_writing, daemon=True, name="compactor-log")
            self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """One line, or several."""
        text = self.format(record)
        print(text, file=sys.stderr, flush=True)
        self._lines.extend(text.splitlines())
        self._told += 1

    def close(self) -> None:
        """Listen no more; what was heard is written."""
        logging.getLogger("compactor").removeHandler(self)
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        super().close()

    def report(self, code: int, output: str) -> None:
        """Write how it ended; whoever waits reads it there."""
        if self._directory:
            told = {"code": code, "output": output, "errors": "\n".join([*self._lines][-_LAST_LINES:])}
            place = join(self._directory, REPORT)
            _store(place).write(place, json.dumps(told, ensure_ascii=False).encode())

    def _keep_writing(self) -> None:
        place = join(self._directory, LOG)
        while True:
            ended = self._ended.wait(LOG_SECONDS)
            if self._told > self._written:
                told, lines = self._told, [*self._lines]
                try:
                    _store(place).write(place, "".join(f"{line}\n" for line in lines).encode())
                    self._written = told
                except CompactorError as error:
                    # what it tells is on standard error as well, which the cluster keeps
                    print(f"the log could not be written: {error}", file=sys.stderr, flush=True)
            if ended:
                return


if __name__ == "__main__":
    sys.exit(main())
