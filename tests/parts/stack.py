"""A real source for tests and `make demo-stack`, on loopback: PostgreSQL → Debezium on Kafka Connect → Kafka. Needs Java 17 and Maven.

80 MB are fetched once. Records are JSON with schema, so that no registry is needed.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import subprocess
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compactor.spark.java import find_java
from tests.parts import metastore as parts

KAFKA, DEBEZIUM = "4.3.1", "3.7.0.Final"
PREFIX = "pg"
"""Of topics: `pg.public.student`."""

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>compactor.tests</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging><dependencies>{}</dependencies></project>
"""
_ARTIFACTS = (
    *(("org.apache.kafka", name, KAFKA) for name in ("kafka_2.13", "kafka-tools", "connect-runtime", "connect-json")),
    ("org.slf4j", "slf4j-nop", "1.7.36"),
)
_BROKER = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},SECURE://127.0.0.1:{secure},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SECURE://127.0.0.1:{secure}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL
listener.name.secure.sasl.enabled.mechanisms=PLAIN
listener.name.secure.plain.sasl.jaas.config={login} required user_ingest="{password}";
listener.name.secure.ssl.keystore.location={keystore}
listener.name.secure.ssl.keystore.password={password}
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""
_CONNECT = """bootstrap.servers={servers}
listeners=http://127.0.0.1:{rest}
plugin.path={plugins}
offset.storage.file.filename={offsets}
offset.flush.interval.ms=1000
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
"""


_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@dataclass(frozen=True)
class Broker:
    """A running Kafka. `servers` is open to all of this machine; `secure` wants TLS and the login that `client` writes down."""

    servers: str
    secure: str
    home: Path
    java: tuple[str, ...]
    password: str

    def client(self, path: Path, password: str = "", trust: bool = True) -> Path:
        """Client properties for `secure`, as a user keeps them in a file; another password, or no trust, to be refused."""
        lines = [f"bootstrap.servers={self.secure}", "security.protocol=SASL_SSL", "sasl.mechanism=PLAIN"]
        lines += [f'sasl.jaas.config={_LOGIN} required username="ingest" password="{password or self.password}";']
        lines += ["ssl.truststore.type=PEM", f"ssl.truststore.location={self.home / 'broker.pem'}"] if trust else []
        path.write_text("\n".join(lines) + "\n")
        return path

    def send(self, topic: str, records: Iterable[tuple[str, str | None]]) -> None:
        """Keys and values of one topic, in this order; None is a null value."""
        lines = "".join(f"{key}\t{'<none>' if value is None else value}\n" for key, value in records)
        options = [
            f"--bootstrap-server={self.servers}",
            f"--topic={topic}",
            "--reader-property=parse.key=true",
            "--reader-property=null.marker=<none>",
        ]
        command = [*self.java, "org.apache.kafka.tools.ConsoleProducer", *options]
        done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)
        if done.returncode or "ERROR" in done.stdout + done.stderr:
            raise RuntimeError(f"{topic}: {done.stdout}{done.stderr}")


@dataclass(frozen=True)
class Stack:
    """The running parts: `servers` of Kafka, `database` port of PostgreSQL (user hive, database school)."""

    servers: str
    database: int
    rest: int
    home: Path

    def sql(self, text: str) -> list[str]:
        """Run statements; what they answer, a line each, unaligned."""
        client = [parts._postgres_binaries() / "psql", "-h", "127.0.0.1", "-p", self.database, "-U", "hive", "-d", "school"]
        command = parts._text([*client, "-v", "ON_ERROR_STOP=1", "-qAtc", text])
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={"PGTZ": "UTC", "PATH": "/usr/bin:/bin"})
        if done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout.splitlines()

    def connect(self, name: str = "school", **more: str) -> None:
        """Start the connector: a snapshot of every table of `public`, then its changes."""
        config = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "plugin.name": "pgoutput",
            "database.hostname": "127.0.0.1",
            "database.port": str(self.database),
            "database.user": "hive",
            "database.password": "unused",
            "database.dbname": "school",
            "topic.prefix": PREFIX,
            "slot.name": name,
            "schema.include.list": "public",
            "provide.transaction.metadata": "true",
            "skipped.operations": "none",
            "heartbeat.interval.ms": "1000",
            "poll.interval.ms": "100",
            **more,
        }
        self._call("POST", "/connectors", {"name": name, "config": config})
        parts._until("the connector", lambda: self._running(name))

    def _running(self, name: str) -> bool:
        told = self._call("GET", f"/connectors/{name}/status")
        failed = [task["trace"] for task in told["tasks"] if task["state"] == "FAILED"]
        if failed:
            raise RuntimeError(f"the connector failed: {failed[0][:2000]}")
        return bool(told["tasks"]) and all(task["state"] == "RUNNING" for task in told["tasks"])

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.rest}{path}", data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"Kafka Connect: {error.read().decode()[:2000]}") from None


@contextmanager
def broker(tmp: Path) -> Iterator[Broker]:
    """Kafka alone, ready; it makes a topic of one partition when somebody writes to it."""
    home, password = Path(find_java()), secrets.token_hex(12)
    java = tuple(parts._text([home / "bin" / "java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{_kafka()}/*"]))
    port, secure, controller = parts.free_port(), parts.free_port(), parts.free_port()
    keystore = tmp / "broker.p12"
    keytool = [home / "bin" / "keytool", "-keystore", keystore, "-storepass", password, "-alias", "broker"]
    names = ["-dname", "CN=127.0.0.1", "-ext", "SAN=ip:127.0.0.1"]
    parts._run([*keytool, "-genkeypair", "-storetype", "PKCS12", "-keyalg", "EC", "-validity", "2", *names])
    parts._run([*keytool, "-exportcert", "-rfc", "-file", tmp / "broker.pem"])
    said = tmp / "broker.properties"
    said.write_text(
        _BROKER.format(port=port, secure=secure, controller=controller, data=tmp / "kafka", login=_LOGIN, password=password, keystore=keystore)
    )
    parts._run([*java, "kafka.tools.StorageTool", "format", "-t", "compactorTestCluster0w", "-c", said])
    with parts._server("Kafka", [*java, "kafka.Kafka", said], tmp / "kafka.log", lambda: parts._connects(port) and parts._connects(secure)):
        yield Broker(f"127.0.0.1:{port}", f"127.0.0.1:{secure}", tmp, java, password)


@contextmanager
def source(tmp: Path) -> Iterator[Stack]:
    """All parts, ready; the database `school` is empty and no connector runs yet."""
    plugins, rest = _debezium(), parts.free_port()
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(parts.postgres_server(tmp, "school", {"wal_level": "logical"}))
        kafka = stack.enter_context(broker(tmp))
        worker = tmp / "connect.properties"
        worker.write_text(_CONNECT.format(servers=kafka.servers, rest=rest, plugins=plugins, offsets=tmp / "connect.offsets"))
        found = Stack(kafka.servers, database, rest, tmp)
        command = [*kafka.java, "org.apache.kafka.connect.cli.ConnectStandalone", worker]
        stack.enter_context(parts._server("Kafka Connect", command, tmp / "connect.log", lambda: _answers(found)))
        yield found


def _answers(stack: Stack) -> bool:
    try:
        return isinstance(stack._call("GET", "/connectors"), list)
    except (OSError, RuntimeError):
        return False


def _kafka() -> Path:
    home = parts._CACHE / f"kafka-{KAFKA}"
    if not home.exists():
        fetched = _empty(home)
        listed = "".join(
            f"<dependency><groupId>{g}</groupId><artifactId>{a}</artifactId><version>{v}</version></dependency>" for g, a, v in _ARTIFACTS
        )
        (fetched / "pom.xml").write_text(_POM.format(listed))
        _maven(["-f", fetched / "pom.xml", "dependency:copy-dependencies", f"-DoutputDirectory={fetched}", "-DincludeScope=runtime"], "Kafka")
        fetched.rename(home)
    return home


def _debezium() -> Path:
    home = parts._CACHE / f"debezium-{DEBEZIUM}"
    if not home.exists():
        fetched = _empty(home)
        artifact = f"-Dartifact=io.debezium:debezium-connector-postgres:{DEBEZIUM}:tar.gz:plugin"
        _maven(["dependency:copy", artifact, f"-DoutputDirectory={fetched}"], "Debezium")
        (archive,) = fetched.glob("*.tar.gz")
        with tarfile.open(archive) as content:
            content.extractall(fetched, filter="data")
        archive.unlink()
        fetched.rename(home)
    return home


def _empty(home: Path) -> Path:
    fetched = home.with_name(f"{home.name}.part")
    shutil.rmtree(fetched, ignore_errors=True)
    fetched.mkdir(parents=True)
    return fetched


def _maven(options: list[object], what: str) -> None:
    if not shutil.which("mvn"):
        raise parts.PartsMissing(f"{what} is needed: install Maven (apt-get install --no-install-recommends maven)")
    parts._run(["mvn", "-q", "-B", *options], f"{what} could not be had from Maven: ")
