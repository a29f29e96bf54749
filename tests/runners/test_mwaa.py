"""What an MWAA environment installs: a wheel without PySpark that requirements.txt names where MWAA unpacks it, and which works there."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from compactor import __version__
from compactor.app.packaging import mwaa

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return mwaa.files()


@pytest.fixture(scope="module")
def wheel(files: dict[str, bytes]) -> zipfile.ZipFile:
    """The wheel in plugins.zip."""
    with zipfile.ZipFile(io.BytesIO(files["plugins.zip"])) as plugins:
        (name,) = plugins.namelist()
        return zipfile.ZipFile(io.BytesIO(plugins.read(name)))


def test_requirements_name_the_wheel_where_mwaa_unpacks_it(files: dict[str, bytes]) -> None:
    """Nothing comes from an index under our name: that name belongs to another project there."""
    lines = [line for line in files["requirements.txt"].decode().splitlines() if not line.startswith("#")]
    with zipfile.ZipFile(io.BytesIO(files["plugins.zip"])) as plugins:
        assert lines == [f"/usr/local/airflow/plugins/{name}" for name in plugins.namelist()]
    assert f"cdc_compactor-{__version__}+mwaa-" in lines[0]


def test_the_wheel_is_whole(wheel: zipfile.ZipFile) -> None:
    """As pip checks it: every file is in RECORD with its hash and size, and the metadata are of this version."""
    (info,) = {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" in name}
    record = {name: (digest, size) for name, digest, size in csv.reader(io.StringIO(wheel.read(f"{info}/RECORD").decode()))}
    assert set(record) == set(wheel.namelist())
    for name, (digest, size) in record.items():
        if name != f"{info}/RECORD":
            data = wheel.read(name)
            assert (digest, int(size)) == ("sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode(), len(data))
    assert f"Version: {__version__}+mwaa\n" in wheel.read(f"{info}/METADATA").decode()


def test_it_requires_what_the_project_does_except_spark() -> None:
    """A dependency that is added to pyproject.toml is added here, too."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    block = re.search(r"^dependencies = \[(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    assert block
    dependencies = re.findall(r'^ +"([^"]+)"', block[1], re.MULTILINE)
    assert [each for each in dependencies if not each.startswith("pyspark")] == list(mwaa.REQUIREMENTS)


def test_the_same_sources_are_the_same_bytes(files: dict[str, bytes]) -> None:
    assert mwaa.files() == files


WITHOUT_SPARK = """
import sys
sys.path.insert(0, sys.argv.pop(1))
sys.modules["pyspark"] = None  # an import of it fails
from compactor.cli.main import main
assert ".whl" not in main.__code__.co_filename and "unpacked" in main.__code__.co_filename
main()
"""


@pytest.mark.slow
def test_commands_of_a_worker_run_without_spark(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """`plan`, `status` and the check of files, from the unpacked wheel; what needs Spark says so."""
    wheel.extractall(tmp_path / "unpacked")
    landing = tmp_path / "lake/t/incremental/increment_2024030500"
    landing.mkdir(parents=True)
    (landing / "a.json").write_text('{"id": 1}\n', encoding="utf-8")
    config = tmp_path / "compactor.yaml"
    config.write_text("warehouse: lake\ntables: {t: {key: [id], order_by: [id]}}\n", encoding="utf-8")

    def said(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-c", WITHOUT_SPARK, str(tmp_path / "unpacked"), *arguments, "--config", str(config)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stdout + done.stderr

    for arguments in (["plan", "t"], ["status"], ["verify", "--files-only"]):
        code, text = said(*arguments)
        assert code == 0, (arguments, text)
    code, text = said("run", "t")
    assert code == 1
    assert "pyspark" in text.lower()


def test_the_startup_script_names_the_configuration_beside_the_dags(files: dict[str, bytes], tmp_path: Path) -> None:
    """In a real shell."""
    script = tmp_path / "startup.sh"
    script.write_bytes(files["startup.sh"])
    done = subprocess.run(["sh", "-euc", f". {script}; echo $COMPACTOR_CONFIG"], env={}, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "/usr/local/airflow/dags/compactor.yaml\n"
