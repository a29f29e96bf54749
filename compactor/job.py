"""The program that runs on a cluster: the words of the command line, with everything else already resolved.

    spark-submit --py-files compactor.zip main.py --resolved s3://code/plans/x.json --report s3://logs/jobs/reports/x run student --output json

`--resolved` is a location, or the JSON itself. The answer goes to standard output and, as `report.json` with exit code and last words, below
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
from collections.abc import Callable, Sequence
from typing import Any

from compactor.aws import metrics
from compactor.aws.client import Reach
from compactor.aws.emr import glue_conf, on_emr
from compactor.core.model.errors import CompactorError, ConfigError, Refused, Unavailable
from compactor.core.model.layout import join
from compactor.core.model.spec import TableSpec
from compactor.core.results.notice import Message, Target
from compactor.core.settings.job_config import Resolved
from compactor.core.settings.s3 import S3Settings
from compactor.flows.environment import World
from compactor.flows.keep.vacuum import vacuum
from compactor.flows.read.measure import measure
from compactor.flows.read.verify import verify
from compactor.flows.run import rebuild_table, replay_table, run_tables
from compactor.flows.write import restore
from compactor.ports import Catalog, Engine, Storage
from compactor.storage.local import LocalStorage
from compactor.storage.routed import RoutedStorage

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
    found.add_argument("--resolved", required=True, help="the resolved configuration: a location, or JSON")
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
    commands.choices["run"].add_argument("--fold", action="store_true")
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


class Cluster:
    """The composition root there: the ports, made of what was resolved. Close it: that ends Spark."""

    def __init__(self, resolved: Resolved, verbose: bool = False) -> None:
        self.resolved, self._verbose = resolved, verbose
        self._lock = threading.RLock()
        self._storage = RoutedStorage(LocalStorage(), self._remote)
        self._made: dict[str, Any] = {}

    def specs(self, names: Sequence[str]) -> list[TableSpec]:
        """These tables, or all. Raises ConfigError for one that was not resolved."""
        known = {spec.name: spec for spec in self.resolved.specs}
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ConfigError(f"table {unknown[0]} was not resolved; these were: {', '.join(known)}")
        return [known[name] for name in dict.fromkeys(names or known)]

    def world(self, files_only: bool = False) -> World:
        """What the flows get."""
        return World(self._storage, self._engine, self._catalog, notify=notify, files_only=files_only)

    def close(self) -> None:
        """End Spark, if it was started."""
        with self._lock:
            spark = self._made.pop("spark", None)
            self._made.clear()
        if spark is not None:
            from compactor.spark.session import close_session

            close_session(spark)

    def _remote(self, location: str) -> Storage:
        from compactor.storage.s3.storage import S3Storage

        said = self.resolved
        home = said.warehouse if said.warehouse.startswith("s3://") else location
        store = S3Storage(home, _s3(said.s3))
        # told before anything is computed: without conditional puts nothing could be committed
        store.conditional_puts(join(home, "x"))
        return store

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        # several tables ask at the same time
        with self._lock:
            if name not in self._made:
                self._made[name] = make()
            return self._made[name]

    def _spark(self) -> Any:
        from compactor.spark.session import SessionSettings, open_session

        said = self.resolved
        conf = glue_conf(said.catalog_id) if said.catalog == "glue" and on_emr() else {}
        kinds = {spec.timestamps for spec in said.specs}
        settings = SessionSettings(
            said.metastore_uri,
            None,
            said.warehouse,
            verbose=self._verbose,
            conf=tuple(conf.items()),
            timestamps={"int96": "INT96", "int64": "TIMESTAMP_MICROS"}[kinds.pop()],
        )
        return self._once("spark", lambda: open_session(settings))

    def _engine(self) -> Engine:
        from compactor.spark.engine import SparkEngine

        known = self._schema if self.resolved.schemas else None
        engine: Engine = self._once("engine", lambda: SparkEngine(self._spark(), self._storage, known))
        return engine

    def _schema(self, number: int) -> str:
        found = self.resolved.schema(number)
        if found is None:
            # it may have been registered after the job was sent; the next one brings it along
            raise Unavailable(f"records name the schema {number}, which the registry did not have when this job was sent")
        return found

    def _catalog(self) -> Catalog:
        said = self.resolved
        if said.catalog == "glue":
            from compactor.catalog.glue.catalog import GlueCatalog
            from compactor.catalog.glue.client import GlueSettings

            found: Catalog = self._once("catalog", lambda: GlueCatalog(GlueSettings(said.catalog_id or "", Reach(said.catalog_region))))
            return found
        from compactor.catalog.hive import HiveCatalog

        catalog: Catalog = self._once("catalog", lambda: HiveCatalog(self._spark()))
        return catalog


def _s3(said: S3Settings) -> S3Settings:
    return said.within(os.environ)


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


def answer(cluster: Cluster, said: argparse.Namespace) -> tuple[Any, int]:
    """What the command line prints, as plain values, and its exit code."""
    specs = cluster.specs(said.tables)
    if said.command == "run":
        specs = [spec.folding if said.fold else spec for spec in specs]
        reports = run_tables(cluster.world(), specs, parallel=said.parallel, label=said.label)
        if cluster.resolved.metrics is not None:
            namespace, deployment, region = cluster.resolved.metrics
            reach = Reach(region, operation_seconds=20.0)
            measure(cluster.world(files_only=True), specs, reports, lambda found: metrics.send(found, namespace, deployment, reach))
        return [report.to_json() for report in reports], _code([report.exit_code for report in reports])
    if said.command == "quarantine":
        report = replay_table(cluster.world(), specs[0], label=said.label)
        return report.to_json(), report.exit_code
    if said.command == "rebuild":
        (spec,) = specs
        target = restore.named(cluster.world(files_only=True), spec, said.as_of)
        built = rebuild_table(cluster.world(), spec, target, said.accept_differences, said.dry_run, label=said.label)
        told = "; ".join(built.sentences)
        log.log(logging.ERROR if built.exit_code else logging.INFO, "compactor: %s: %s", spec.name, told)
        return built.to_json(), built.exit_code
    found: list[Any] = []
    codes, ok = [], True
    for spec in specs:
        try:
            if said.command == "vacuum":
                found.append(vacuum(cluster.world(files_only=not said.run), spec, not said.run, said.label).to_json())
                continue
            checks = verify(cluster.world(files_only=said.files_only), spec, said.deep)
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
        cluster = Cluster(_resolved(said.resolved), said.verbose)
        try:
            found, code = answer(cluster, said)
        finally:
            cluster.close()
        return code, json.dumps(found, indent=2, ensure_ascii=False)
    except CompactorError as error:
        log.error("compactor: %s", error)
        return error.exit_code, ""
    except Exception as error:
        log.exception("nobody foresaw it")
        log.error("compactor: unexpected %s: %s", type(error).__name__, str(error)[:500])
        return _UNEXPECTED, ""


def _resolved(said: str) -> Resolved:
    if said.lstrip().startswith("{"):
        return Resolved.read(said.encode())
    try:
        return Resolved.read(_store(said).read(said))
    except FileNotFoundError:
        raise ConfigError(f"the resolved configuration: expected it at {said}, found nothing") from None


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
