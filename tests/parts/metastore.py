"""Real servers for tests, on loopback: PostgreSQL, a Hive metastore, a Spark Thrift server. Needs a JDK; made of PySpark's jars.

Derby is for one client at a time: with two readers and a writer it takes minutes for what PostgreSQL does in seconds.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark

from compactor.core.settings.s3 import S3Settings, s3a_properties
from compactor.spark.java import find_java

SPARK_HOME = Path(pyspark.__file__).parent
JDBC_VERSION = "42.7.4"
AWS_SDK_VERSION = "1.12.262"
"""What hadoop-aws 3.3.4 was built with (its pom)."""
WAIT_SECONDS = 120
_CACHE = Path(os.environ.get("COMPACTOR_TEST_CACHE") or Path.home() / ".cache" / "compactor-tests")


class PartsMissing(RuntimeError):
    """The machine lacks a program that the tests of this kind need; never a reason to skip them."""


@contextmanager
def postgres_server(tmp: Path, database: str = "metastore", settings: Mapping[str, str] | None = None) -> Iterator[int]:
    """A throw-away PostgreSQL cluster with an empty database; user `hive`, no password, this machine only."""
    binaries, port = _postgres_binaries(), free_port()
    with contextlib.ExitStack() as stack:
        prefix: list[str] = []
        data = tmp / "postgres"
        if os.geteuid() == 0:
            # PostgreSQL refuses to run as root. Below pytest's folder it would end when another pytest closes that folder to everybody else.
            data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="compactor-postgres-")))
            account = pwd.getpwnam("postgres")
            os.chown(data, account.pw_uid, account.pw_gid)
            prefix = ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
        tmp.mkdir(parents=True, exist_ok=True)
        _run([*prefix, binaries / "initdb", "-D", data, "-U", "hive", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"])
        command = [*prefix, binaries / "postgres", "-D", data, "-p", port, "-k", "", "-c", "listen_addresses=127.0.0.1", "-F"]
        command += [part for name, value in (settings or {}).items() for part in ("-c", f"{name}={value}")]
        stack.enter_context(_server("PostgreSQL", command, tmp / "postgres.log", lambda: _connects(port)))
        client = [binaries / "psql", "-h", "127.0.0.1", "-p", port, "-U", "hive", "-d", "postgres", "-qc"]
        _until("PostgreSQL", lambda: _succeeds([*client, "select 1"]))
        _run([*client, f"create database {database}"])
        yield port


@contextmanager
def metastore(
    tmp: Path, backend: str = "derby", s3: str | None = None, version: str = "", settings: Mapping[str, str] | None = None
) -> Iterator[str]:
    """A Hive metastore on `derby` or `postgres`; gives its thrift:// URI. `s3`: an endpoint where it finds the tables that lie in S3. `version`: of
    Hive's metastore (2.3.10), with the Thrift that it needs, other than that of Spark's jars. `settings`: more
    of its hive-site.xml."""
    home = tmp / "hms"
    home.mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        newer = [("org.apache.hive", "hive-metastore", version), ("org.apache.thrift", "libthrift", "0.16.0")] if version else []
        jars = [*(_jar(*each) for each in newer), SPARK_HOME / "jars" / "*"]
        if backend == "postgres":
            database = stack.enter_context(postgres_server(tmp))
            url, driver = f"jdbc:postgresql://127.0.0.1:{database}/metastore", "org.postgresql.Driver"
            jars.append(_jdbc_jar())
        else:
            url, driver = f"jdbc:derby:;databaseName={home}/metastore_db;create=true", "org.apache.derby.jdbc.EmbeddedDriver"
        _compile(home)
        properties = dict(settings or {})
        if s3 is not None:
            jars += _s3_jars()
            told = s3a_properties(S3Settings(endpoint=s3, path_style=True, region="us-east-1"))
            properties |= {name[len("spark.hadoop.") :]: value for name, value in told.items() if name.startswith("spark.hadoop.fs.")}
        write_site(home, properties | _metastore_properties(home, url, driver))
        port = free_port()
        command = [
            *java("512m", ("lang", "util", "util.concurrent", "net", "io", "nio")),
            f"-Dderby.stream.error.file={home}/derby.log",
            "-cp",
            ":".join(map(str, [home, *jars])),
            "HmsLoopback",
            port,
        ]
        stack.enter_context(_server("the metastore", command, tmp / "hms.log", lambda: _connects(port)))
        yield f"thrift://127.0.0.1:{port}"


@contextmanager
def thrift_server(tmp: Path, metastore_uri: str) -> Iterator[int]:
    """A Spark Thrift server on that metastore: a second client, for PyHive. Gives its port."""
    home, port = tmp / "thriftserver", free_port()
    home.mkdir(parents=True)
    settings = {
        "spark.hadoop.hive.metastore.uris": metastore_uri,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": (home / "warehouse").as_uri(),
        "spark.hadoop.hive.exec.scratchdir": str(home / "scratch"),
        "spark.hadoop.hive.exec.local.scratchdir": str(home / "scratch"),
    }
    options = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    server = ["hive.server2.thrift.bind.host=127.0.0.1", f"hive.server2.thrift.port={port}"]
    command = [
        SPARK_HOME / "bin" / "spark-submit",
        "--master",
        "local[2]",
        "--class",
        "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2",
        *options,
        "spark-internal",
        *[part for each in server for part in ("--hiveconf", each)],
    ]
    environment = {"SPARK_HOME": str(SPARK_HOME), "JAVA_HOME": find_java(), "SPARK_LOCAL_IP": "127.0.0.1"}
    with _server("the Thrift server", command, tmp / "thriftserver.log", lambda: _connects(port), environment, home):
        yield port


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def _server(
    name: str,
    command: list[object],
    log: Path,
    ready: Callable[[], bool],
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    end: signal.Signals = signal.SIGINT,
) -> Iterator[int]:
    """A process group of its own, alive and ready inside the block, gone after it with all that it has started; gives its id. `end`: the signal that
    ends it."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            _text(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            cwd=cwd or log.parent,
            start_new_session=True,
        )
    try:
        _until(name, ready, process, log)
        yield process.pid
    finally:
        for how in (end, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, how)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)


def _until(name: str, ready: Callable[[], bool], process: subprocess.Popen[bytes] | None = None, log: Path | None = None) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not ready():
        ended = process is not None and process.poll() is not None
        if ended or time.monotonic() > end:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-30:]) if log else ""
            raise RuntimeError(f"{name} {'ended' if ended else f'did not answer within {WAIT_SECONDS} s'}:\n{tail}")
        time.sleep(0.1)


def _connects(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _succeeds(command: list[object]) -> bool:
    return subprocess.run(_text(command), capture_output=True, check=False).returncode == 0


def _text(command: list[object]) -> list[str]:
    return [str(part) for part in command]


def _run(command: list[object], missing: str = "") -> None:
    done = subprocess.run(_text(command), capture_output=True, text=True, check=False)
    if done.returncode:
        error = PartsMissing if missing else RuntimeError
        raise error(f"{missing}{command[0]} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-2000:]}")


def _postgres_binaries() -> Path:
    """Debian keeps the server's programs out of the PATH."""

    def found() -> list[Path]:
        return sorted(path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb"))

    if not found() and shutil.which("initdb"):
        return Path(str(shutil.which("initdb"))).parent
    if not found() and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "update", "-q"], capture_output=True, check=False)
        _run(
            ["apt-get", "install", "-y", "-q", "--no-install-recommends", "postgresql"],
            "PostgreSQL is needed and could not be installed: ",
        )
    if not found():
        raise PartsMissing("PostgreSQL is needed: apt-get install --no-install-recommends postgresql")
    return found()[-1]


def _jdbc_jar() -> Path:
    return _jar("org.postgresql", "postgresql", JDBC_VERSION)


def _s3_jars() -> list[Path]:
    """hadoop-aws of Spark's own Hadoop, with its SDK: those that Spark has fetched for us already, else from Maven."""
    (hadoop,) = (path.stem.rpartition("-")[2] for path in (SPARK_HOME / "jars").glob("hadoop-client-api-*.jar"))
    return [_jar("org.apache.hadoop", "hadoop-aws", hadoop), _jar("com.amazonaws", "aws-java-sdk-bundle", AWS_SDK_VERSION)]


def _jar(group: str, name: str, version: str) -> Path:
    fetched = Path.home() / ".ivy2" / "jars" / f"{group}_{name}-{version}.jar"
    jar = fetched if fetched.exists() else _CACHE / f"{name}-{version}.jar"
    if not jar.exists():
        if not shutil.which("mvn"):
            raise PartsMissing(f"{group}:{name}:{version} is needed: install Maven, or put it at {jar}")
        _CACHE.mkdir(parents=True, exist_ok=True)
        artifact = f"-Dartifact={group}:{name}:{version}"
        _run(["mvn", "-q", "-B", "dependency:copy", artifact, f"-DoutputDirectory={_CACHE}"], f"{name} could not be had from Maven: ")
    return jar


def _compile(target: Path) -> None:
    compiler = Path(find_java()) / "bin" / "javac"
    program = str(compiler) if compiler.exists() else shutil.which("javac")
    if program is None:
        raise PartsMissing("javac is needed for the test metastore: apt-get install --no-install-recommends openjdk-17-jdk-headless")
    _run([program, "-nowarn", "-cp", SPARK_HOME / "jars" / "*", "-d", target, Path(__file__).with_name("HmsLoopback.java")])


def java(heap: str, opened: Sequence[str]) -> list[object]:
    """The start of a command line: a JVM that starts fast. `opened`: packages below java.base/java."""
    program = Path(find_java()) / "bin" / "java"
    return [
        program,
        f"-Xmx{heap}",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in opened),
    ]


def write_site(home: Path, properties: Mapping[str, str]) -> None:
    """Write `home`/hive-site.xml."""
    lines = [f"<property><name>{name}</name><value>{value}</value></property>" for name, value in properties.items()]
    (home / "hive-site.xml").write_text("<configuration>\n" + "\n".join(lines) + "\n</configuration>\n", encoding="utf-8")


def _metastore_properties(home: Path, url: str, driver: str) -> dict[str, str]:
    return {
        "javax.jdo.option.ConnectionURL": url,
        "javax.jdo.option.ConnectionDriverName": driver,
        "javax.jdo.option.ConnectionUserName": "hive",
        "javax.jdo.option.ConnectionPassword": "hive",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": (home / "warehouse").as_uri(),
        "hive.async.log.enabled": "false",
    }
