"""What is put onto a cluster: exactly what runs there, the same bytes from the same sources, and Python 3.9 can read and load it."""

from __future__ import annotations

import ast
import dataclasses
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from compactor.app.packaging import job_zip as app_package
from compactor.app.packaging.job_zip import Package, package, write
from compactor.config.settings import load
from compactor.core.model.errors import ConfigError, Refused
from compactor.core.settings.job_config import JobConfig
from tests.parts.memory_storage import MemoryStorage
from tests.test_layers import CLUSTER, layer


@pytest.fixture(scope="module")
def packed() -> Package:
    return package()


def sources(packed: Package) -> dict[str, str]:
    """File in the zip → text."""
    with zipfile.ZipFile(io.BytesIO(packed.files["compactor.zip"])) as zipped:
        return {name: zipped.read(name).decode() for name in zipped.namelist()}


@pytest.mark.slow
def test_the_same_sources_are_the_same_bytes(packed: Package) -> None:
    """Whenever, and in whatever process: jobs of one version can be told from those of another by their digest."""
    program = "from compactor.app.packaging.job_zip import package; import hashlib; print(package().digest)"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60).stdout
    assert said.strip() == packed.digest


def stored(data: bytes) -> bytes:
    """The same zip without compression: what another compressor does is as different."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as read, zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as wrote:
        for name in read.namelist():
            wrote.writestr(name, read.read(name))
    return packed.getvalue()


@pytest.mark.slow
def test_it_is_compressed_and_known_by_its_content(packed: Package) -> None:
    """A machine with another compressor writes other bytes of the same package."""
    other = Package({**packed.files, "compactor.zip": stored(packed.files["compactor.zip"])}, packed.modules)
    assert len(packed.files["compactor.zip"]) < len(other.files["compactor.zip"]) / 2
    assert other.digest == packed.digest
    storage = MemoryStorage()
    write(other, storage, "s3://code/jobs/1")
    assert write(packed, storage, "s3://code/jobs/1")


def test_only_what_runs_on_a_cluster_is_in_it(packed: Package) -> None:
    """No configuration, no command line, no registry, no Airflow; and of each layer what the job needs."""
    assert {layer(module) for module in packed.modules} - {""} <= set(CLUSTER)
    left_out = {
        "compactor.notify.webhook",
        "compactor.spark.input.topics",
        "compactor.flows.land.ingest",
    }
    assert left_out & set(packed.modules) == set()
    needed = {"compactor.job", "compactor.runtime", "compactor.flows.run", "compactor.spark.engine", "compactor.storage.s3.storage"}
    assert {"compactor", *needed} <= set(packed.modules)
    edge = ("app", "cli", "config", "registry", "runners", "airflow", "demo")
    assert [module for module in packed.modules if module.split(".")[1:2] and module.split(".")[1] in edge] == []


def test_every_package_has_its_init(packed: Package) -> None:
    """Or an import from a zip would find nothing."""
    names = set(sources(packed))
    assert {str(Path(name).parent / "__init__.py") for name in names} <= names


def test_python_3_9_reads_every_file(packed: Package) -> None:
    """By its grammar; `test_layers` has what else 3.9 lacks."""
    for name, text in sources(packed).items():
        compile(ast.parse(text, name, feature_version=(3, 9)), name, "exec")
    ast.parse(packed.files["main.py"], "main.py", feature_version=(3, 9))


def python_3_9() -> str | None:
    """A real one, when this machine has it."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for name in ("python3.9", *map(str, pyenv.glob("versions/3.9.*/bin/python"))):
        try:
            said = subprocess.run(
                [name, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True, text=True, check=False, timeout=60
            ).stdout
        except OSError:
            continue
        if said.strip() == "(3, 9)":
            return name
    return None


LOADS = """
import importlib, sys, types
sys.path.insert(0, sys.argv[1])

class Anything(types.ModuleType):
    # boto3 and PySpark are the cluster's own; here only our modules are loaded
    def __getattr__(self, name):
        return type(name, (Exception,), {})

for name in ("boto3", "botocore", "botocore.config", "botocore.exceptions", "botocore.parsers", "botocore.session", "pyspark", "pyspark.sql", "py4j"):
    parent, _, last = name.rpartition(".")
    sys.modules[name] = Anything(name)
    if parent:
        setattr(sys.modules[parent], last, sys.modules[name])
for name in sys.argv[2:]:
    importlib.import_module(name)
from compactor.core.settings.job_config import JobConfig
from compactor.job import parser
assert JobConfig.read(JobConfig((), "s3://lake/w").written()) == JobConfig((), "s3://lake/w")
print(parser().parse_args(["--job-config", "{}", "run", "student", "--output", "json"]).tables, len(sys.argv[2:]))
"""


def test_python_3_9_loads_every_module_that_is_not_sparks(packed: Package, tmp_path: Path) -> None:
    """From the zip."""
    python = python_3_9()
    if python is None:
        pytest.skip("no Python 3.9 on this machine")
    (tmp_path / "compactor.zip").write_bytes(packed.files["compactor.zip"])
    names = [name for name in packed.modules if not name.startswith(("compactor.spark", "compactor.catalog.hive"))]
    command = [python, "-c", LOADS, str(tmp_path / "compactor.zip"), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (0, f"['student'] {len(names)}\n"), done.stderr


def test_another_package_is_not_written_over(packed: Package) -> None:
    """Jobs that wait would get the one's program and the other's modules. The same again is fine."""
    storage = MemoryStorage()
    assert write(packed, storage, "s3://code/jobs/1") == ["s3://code/jobs/1/compactor.zip", "s3://code/jobs/1/main.py"]
    write(packed, storage, "s3://code/jobs/1")
    other = Package({**packed.files, "main.py": b"pass\n"}, packed.modules)
    with pytest.raises(Refused, match=r"s3://code/jobs/1/main.py belongs to another package.*choose a new folder, such as s3://code/jobs/1/\w{16}"):
        write(other, storage, "s3://code/jobs/1")
    assert storage.read("s3://code/jobs/1/main.py") == packed.files["main.py"]


def test_a_directory_will_do(tmp_path: Path, packed: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    """For those who carry it there themselves."""
    monkeypatch.chdir(tmp_path)
    assert app_package.upload("build/job", tmp_path / "compactor.yaml")[0].digest == packed.digest
    assert sorted(path.name for path in (tmp_path / "build/job").iterdir()) == ["compactor.zip", "main.py"]


# ---- JobConfig -------------------------------------------------------------------------------------------------------

FULL = """
warehouse: s3://lake/w
region: eu-west-1
catalog: {type: glue, database: school, catalog_id: "123456789012"}
s3: {path_style: true, sse: sse-s3}
tables:
  student: {key: [id], op_map: {I: c}, csv: {columns: [a, b]}, on_schema_change: {widened: fail}, notify: [log, {command: [a, b]}], checks: {unique: [a], null_share: {b: 5%}}}
  ledger: {key: [], change_feed: true, daily: {keep: 3}, compact_budget: 2 GB}
  course: {key: [id], history: true, track: [title], columns: {ssn: hash}, archive: keep, compact_window: '22:00-05:00'}
"""


def test_a_job_config_survives_the_way(tmp_path: Path) -> None:
    """Every key of every table; and the same content is the same bytes."""
    from compactor.app.app import App

    (tmp_path / "compactor.yaml").write_text(FULL, encoding="utf-8")
    resolved = App(load(tmp_path / "compactor.yaml")).job_config([])
    read = JobConfig.read(resolved.written())
    # who sends the job sends the messages: addresses may hold secrets, and stay there
    assert [spec.notify for spec in read.specs] == [(("log",), ("command",)), (("log",),), (("log",),)]
    assert [dataclasses.replace(spec, notify=()) for spec in read.specs] == [dataclasses.replace(spec, notify=()) for spec in resolved.specs]
    assert dataclasses.replace(read, specs=()) == dataclasses.replace(resolved, specs=())
    assert read.written() == resolved.written()
    assert [spec.name for spec in resolved.specs] == ["student", "ledger", "course"]
    assert (resolved.catalog, resolved.catalog_id, resolved.catalog_region) == ("glue", "123456789012", "eu-west-1")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "expected a JSON object with `format`"),
        (b"[]", "expected a JSON object with `format`"),
        (b"{}", "expected a JSON object with `format`"),
        (b'{"format": 99}', "expected format 2, found 99; package the job"),
        (b'{"format": 2}', "another version of compactor"),
        (b'{"format": 2, "specs": [], "s3": {"new": 1}, "schemas": []}', "another version of compactor"),
        (b'{"format": 2, "specs": [{"name": "t"}], "s3": {}, "schemas": []}', "another version of compactor"),
        (b'{"format": 2, "specs": [], "s3": {}, "schemas": [], "warehouse": "w", "more": 1}', "another version of compactor"),
    ],
)
def test_what_another_version_wrote_is_refused(data: bytes, said: str) -> None:
    """With what to do; never half understood."""
    with pytest.raises(ConfigError, match=said):
        JobConfig.read(data)
