"""The Spark session with all its settings, and what a JVM on one machine needs: a Java, and the embedded metastore to itself."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark

from compactor.core.model.errors import Refused
from compactor.spark.embedded import LINGER_SECONDS, Lock, embedded_lock, ensure_database, url
from compactor.spark.gateway import end_finalizer, interrupted_after, keeping_interrupts
from compactor.spark.java import WRITE_CLASSES, class_archive, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")
"""A choice of garbage collector. Java does not start with two."""
_COMPILE_LATER = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
"""Ten times the defaults. The JVM then does not compile Spark's planner a second time, which costs a small commit more than its data does. What runs
for each row is called so often that it is compiled as before (docs/design/spark.md#few-jobs)."""
_NAMES = (
    "PythonUtils",
    "SparkSession",
    "functions",
    "org.apache.hadoop.fs.Path",
    "org.apache.parquet.hadoop.ParquetFileReader",
    "org.apache.parquet.hadoop.util.HadoopInputFile",
    "org.apache.spark.sql.execution.datasources.parquet",
    "org.apache.spark.util",
    "py4j.reflection.TypeUtil",
    "scala.Option",
)
"""What PySpark and compactor name in the JVM for each query."""
_LAUNCH_PREFIXES = ("spark.driver.", "spark.jars", "spark.submit.", "spark.files", "spark.archives")
"""Settings that spark-submit itself must see. All others stay off the command line, because `ps` shows it to everyone."""
_FIXED = {
    # `${name}` in a value or a column's name is text; `sql.as_column` has the rest of this rule
    "spark.sql.variable.substitute": "false",
    # rows of files that Spark cannot read, or does not find, would be left out without a word
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    # how our SQL is read: texts in either quotes with escapes, names in back-quotes, without regard to case
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.caseSensitive": "false",
    # what values mean
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.legacy.followThreeValuedLogicInArrayExists": "true",
    "spark.sql.legacy.castComplexTypesToString.enabled": "false",
    "spark.sql.legacy.json.allowEmptyString.enabled": "false",
    "spark.sql.json.enablePartialResults": "true",
    "spark.sql.csv.parser.columnPruning.enabled": "true",
    # Dates before 1582 and timestamps before 1900 stay as the source sends them, in the calendar that every other engine uses.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.int96AsTimestamp": "true",
    # a timestamp without zone is taken as UTC (AWS DMS, pandas and Flink write such Parquet)
    "spark.sql.parquet.inferTimestampNTZ.enabled": "false",
    # nanoseconds of landed files are read as numbers (input/parquet_files.py); Spark reads them in no other way
    "spark.sql.legacy.parquet.nanosAsLong": "true",
}
"""Settings that nobody overrides, because rows depend on them: most have Spark's default."""
_OPEN = ("spark.sql.adaptive.enabled", "spark.sql.shuffle.partitions", "spark.ui.enabled")
_OPEN_S3 = ("spark.hadoop.fs.s3a.attempts.", "spark.hadoop.fs.s3a.connection.timeout", "spark.hadoop.fs.s3a.retry.")
"""Settings that the user's spark-defaults.conf may override. Only run time depends on them."""
PARQUET = {
    form: {
        "spark.sql.parquet.outputTimestampType": timestamps,
        "spark.sql.parquet.writeLegacyFormat": legacy,
        "spark.sql.parquet.compression.codec": codec,
    }
    for form, timestamps, legacy, codec in (("hive", "INT96", "true", "snappy"), ("standard", "TIMESTAMP_MICROS", "false", "zstd"))
}
"""The settings of each form of files (`parquet:`)."""


@dataclass(frozen=True)
class SessionSettings:
    """The settings that differ between sessions. With neither metastore, the session has an in-memory catalog without Hive."""

    metastore_uri: str | None
    """The Thrift URI of a shared metastore."""
    metastore_dir: str | None
    """The folder of an embedded Derby metastore. One process at a time can use it."""
    warehouse_dir: str
    master: str | None = None
    """The Spark master. None: SPARK_MASTER, else spark-submit's, else local[*]."""
    verbose: bool = False
    """Whether Spark's own log and progress are shown."""
    conf: tuple[tuple[str, str], ...] = ()
    """Spark settings that override all others."""
    wait_seconds: float = 0
    """How long to wait for an embedded metastore that another process uses."""
    brief: bool = False
    """Whether the JVM will have little to do. It compiles quickly then, and never a second time for speed."""
    parquet: str = "hive"
    """The form of the files to write, as the key `parquet` has it."""
    encrypted: bool = False
    """Whether Spark encrypts what it writes to local disks: cached rows, shuffle files and spills."""


def open_session(settings: SessionSettings) -> SparkSession:
    """Return a session with these settings. Starts a JVM, or uses the one that spark-submit started this process from.

    Raises Busy if another process uses the embedded metastore, Refused if there is no Java or a session is open in this process.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        raise Refused("a Spark session is open in this process already. Close it first, because its start-up settings cannot be changed.")
    lock = None
    if settings.metastore_dir is not None and settings.metastore_uri is None:
        lock = embedded_lock(settings.metastore_dir, settings.wait_seconds)
    try:
        if SparkContext._gateway is None and not _submitted():
            _start_jvm(settings, lock)
        conf = SparkConf(loadDefaults=True, _jvm=SparkContext._jvm)
        configured = dict(settings.conf)
        for key, value in session_conf(settings).items():
            if (key in _OPEN and key not in configured) or key.startswith(_OPEN_S3):
                conf.setIfMissing(key, value)
            else:
                conf.set(key, value)
        with keeping_interrupts():
            spark = SparkSession.builder.config(conf=conf).getOrCreate()
        if lock is not None:
            ensure_database(spark.sparkContext._jvm, str(settings.metastore_dir))
    except BaseException:
        _stop_jvm()
        if lock is not None:
            lock.release()
        raise
    _settle(spark, settings)
    _remember_names(spark.sparkContext._jvm)
    _open.append((spark, lock))
    return spark


def close_session(spark: SparkSession) -> None:
    """Stop Spark, end the JVM if this process started it, and release the embedded metastore. A second call does nothing."""
    for entry in [entry for entry in _open if entry[0] is spark]:
        _open.remove(entry)
        with contextlib.suppress(Exception):
            spark.stop()
        _stop_jvm()
        if entry[1] is not None:
            entry[1].release()


_open: list[tuple[Any, Lock | None]] = []


@atexit.register
def _close_all() -> None:
    # A JVM that ends by itself lives a second longer than this process, and the next command would still see the lock.
    for spark, _ in [*_open]:
        close_session(spark)


def session_conf(settings: SessionSettings) -> dict[str, str]:
    """Return all Spark settings of the session. `settings.conf` overrides the others."""
    conf = {
        "spark.app.name": "compactor",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.warehouse.dir": settings.warehouse_dir,
        "spark.sql.sources.default": "parquet",
        "spark.sql.adaptive.enabled": "true",
        # the JVM never compiles a method of more bytes, and one that runs for every row must be compiled
        "spark.sql.codegen.hugeMethodLimit": "8000",
        # Its cost grows with the square of the columns (2,000 columns: half of a run's CPU), and it finds nothing that our queries do not say.
        "spark.sql.constraintPropagation.enabled": "false",
        # A commit with history and feed uses more than the 100 generated classes that Spark keeps: each commit compiled all of them again.
        "spark.sql.codegen.cache.maxEntries": "1000",
        **PARQUET[settings.parquet],
        # files whose writer names no calendar have the one in which we write (_FIXED)
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
        "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
        "spark.sql.avro.datetimeRebaseModeInRead": "CORRECTED",
        # Tombstones go into folders of their own. Rows are sorted by key, and Spark would sort them by folder first: it keeps a file open for each.
        "spark.sql.optimizer.plannedWrite.enabled": "false",
        "spark.sql.maxConcurrentOutputFileWriters": "100",
        # A sink may write a file for each event. Spark would list each by a task of its own.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "64",
        # A marker file would be the only object in a table's folder that no Snapshot lists.
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        "spark.ui.showConsoleProgress": str(settings.verbose).lower(),
        # several tables share the cores, each in a pool of its own (Environment.share)
        "spark.scheduler.mode": "FAIR",
        **({"spark.io.encryption.enabled": "true"} if settings.encrypted else {}),
        **_metastore_conf(settings),
        **_master_conf(settings),
    }
    return {**conf, **dict(settings.conf), **_FIXED}


def _metastore_conf(settings: SessionSettings) -> dict[str, str]:
    if settings.metastore_uri is not None:
        return {"spark.sql.catalogImplementation": "hive", "spark.hadoop.hive.metastore.uris": settings.metastore_uri}
    if settings.metastore_dir is None:
        return {"spark.sql.catalogImplementation": "in-memory"}
    home = Path(settings.metastore_dir).resolve()
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.hive.metastore.uris": "",
        "spark.hadoop.javax.jdo.option.ConnectionURL": url(settings.metastore_dir),
        "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
        "spark.hadoop.hive.metastore.schema.verification": "false",
        # Otherwise all users of the machine share /tmp/hive, which belongs to the first of them.
        "spark.hadoop.hive.exec.scratchdir": str(home / "scratch"),
        "spark.hadoop.hive.exec.local.scratchdir": str(home / "scratch"),
        "spark.hadoop.hive.downloaded.resources.dir": str(home / "scratch"),
    }


def _master_conf(settings: SessionSettings) -> dict[str, str]:
    master = settings.master or os.environ.get("SPARK_MASTER")
    if master is None and (_submitted() or "--master" in shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))):
        return {}
    master = master or "local[*]"
    if not master.startswith("local"):
        return {"spark.master": master}
    return {
        "spark.master": master,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        # Hadoop has one of its own, with which everybody may read the rows
        "spark.hadoop.fs.permissions.umask-mode": f"{_umask():03o}",
        # A task costs more than the few rows it gets, but adaptive execution cannot split a partition: so not fewer than the cores.
        "spark.sql.shuffle.partitions": str(max(4, os.cpu_count() or 1)),
    }


def _umask() -> int:
    # it can only be read by setting it
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


def _submitted() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _start_jvm(settings: SessionSettings, lock: Lock | None) -> None:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    os.environ["JAVA_HOME"] = find_java()
    conf = SparkConf(loadDefaults=False)
    start = {
        "spark.driver.memory": os.environ.get("COMPACTOR_DRIVER_MEMORY", "2g"),
        **{key: value for key, value in session_conf(settings).items() if key.startswith(_LAUNCH_PREFIXES)},
    }
    # extraJavaOptions is left to the user's spark-defaults.conf
    start["spark.driver.defaultJavaOptions"] = " ".join([*_java_options(settings), start.get("spark.driver.defaultJavaOptions", "")]).strip()
    for key, value in start.items():
        conf.set(key, value)
    launch: Any = launch_gateway
    # The JVM inherits the lock: if this process is killed, the metastore stays locked while its JVM still has it open.
    options: dict[str, Any] = {"pass_fds": (lock.fd,) if lock is not None else ()}
    with tempfile.TemporaryFile() as output:
        # Java itself prints messages (JAVA_TOOL_OPTIONS, incubator modules) that no logging setting stops; standard output belongs to the command.
        options.update({"stdout": 2} if settings.verbose else {"stdout": output, "stderr": output})
        try:
            with interrupted_after():
                SparkContext._ensure_initialized(gateway=launch(conf, options))
        except Exception as error:
            output.seek(0)
            # what matters comes before the stacks
            lines = output.read().decode("utf-8", "replace").splitlines()
            reason = "\n".join(line for line in lines if not line.startswith("\tat ")).strip()[-4000:] or error
            raise Refused(f"Spark did not start with Java {os.environ['JAVA_HOME']}: {reason}") from None


def _java_options(settings: SessionSettings) -> list[str]:
    options = [
        f"-Dlog4j2.configurationFile={(Path(__file__).parent / 'log4j2.properties').as_uri()}",
        f"-Dcompactor.log.level={'warn' if settings.verbose else 'off'}",
        "-Duser.timezone=UTC",
        "-XX:-UsePerfData",
        *_COMPILE_LATER,
    ]
    if not any(_COLLECTOR.search(text) for text in _own_java_options(settings)):
        options.append("-XX:+UseParallelGC")
    if settings.brief:
        # with it the JVM reserves 48 MB for code, which a run of twenty small tables fills
        options += ["-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m"]
    if class_archive().exists():
        # Java 8 has no such file, and accepts the option only with the other one
        options += ["-XX:+UnlockDiagnosticVMOptions", f"-XX:SharedArchiveFile={class_archive()}"]
    if settings.metastore_dir is not None:
        options.append(f"-Dderby.stream.error.file={Path(settings.metastore_dir).resolve() / 'derby.log'}")
    return [shlex.quote(option) for option in options]


def _own_java_options(settings: SessionSettings) -> Iterator[str]:
    """Yield all texts in which the user may have set Java options."""
    yield from (value for key, value in settings.conf if key.endswith("JavaOptions"))
    yield from (os.environ.get(name, "") for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS"))
    yield defaults_file()


def defaults_file() -> str:
    """Return the text of the user's spark-defaults.conf; empty without one."""
    folder = os.environ.get("SPARK_CONF_DIR") or os.path.join(os.environ.get("SPARK_HOME") or os.path.dirname(pyspark.__file__), "conf")
    with contextlib.suppress(OSError):
        return Path(folder, "spark-defaults.conf").read_text(encoding="utf-8")
    return ""


def _remember_names(jvm: Any) -> None:
    """Ask once for the classes and packages that each query names.

    py4j asks the JVM for a name at each use, and the JVM looks for it as a class in every jar: 200 names and a quarter of a second a commit.
    """
    for path in _NAMES:
        owner = jvm
        for name in path.split("."):
            member = getattr(owner, name)
            setattr(owner, name, member)
            owner = member


def _settle(spark: SparkSession, settings: SessionSettings) -> None:
    jvm: Any = spark.sparkContext._jvm
    if (spark.sparkContext.master or "").startswith("local"):
        # Otherwise Spark writes a .crc file beside each local file, and looks for one, under names that Hadoop refuses if they have a colon. Nothing
        # here needs them, and every listing would show them.
        hadoop: Any = spark.sparkContext._jsc
        files = jvm.org.apache.hadoop.fs.FileSystem.getLocal(hadoop.hadoopConfiguration())
        files.setWriteChecksum(False)
        files.setVerifyChecksum(False)
    if settings.verbose:
        log.info("Spark %s on %s, %s", spark.version, jvm.System.getProperty("java.version"), spark.sparkContext.master)


def _stop_jvm() -> None:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway: Any = SparkContext._gateway
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is None:
        return
    end_finalizer(gateway)
    with contextlib.suppress(Exception):
        gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
    # `stop` clears these only if the JVM answers: after a JVM that died, this process could never open another session.
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None
    # The JVM watches its standard input and ends when that does.
    if process.stdin is not None:
        process.stdin.close()
    try:
        # writing classes takes as long as it takes
        process.wait(None if WRITE_CLASSES in os.environ.get("SPARK_SUBMIT_OPTS", "") else LINGER_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
