"""The files that an Amazon MWAA environment installs: requirements.txt, plugins.zip and startup.sh.

plugins.zip contains one wheel of this package. Its metadata leave out PySpark: on MWAA, Spark runs on EMR, and a worker has no room for 300 MB more.
MWAA unpacks plugins.zip into /usr/local/airflow/plugins before it installs requirements.txt, which names the wheel there.
"""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from pathlib import Path

from compactor import __version__
from compactor.app.packaging.job_zip import add, opened
from compactor.core.model.layout import join

REQUIREMENTS = ("boto3", "duckdb>=1.5", "fastavro", "fsspec", "pydantic>=2.7", "pyyaml", "requests>=2.32", "rich", "typer", "urllib3>=2.2")
"""What the package needs on a worker: the dependencies in pyproject.toml without PySpark."""

PLUGINS = "/usr/local/airflow/plugins"
"""Where MWAA unpacks plugins.zip."""

WHEEL = f"cdc_compactor-{__version__}+mwaa-py3-none-any.whl"
_INFO = f"cdc_compactor-{__version__}+mwaa.dist-info"

_REQUIREMENTS_TXT = f"""# Written by `compactor package --mwaa`, version {__version__}. MWAA adds the constraints of its Airflow version.
{PLUGINS}/{WHEEL}
"""

_STARTUP_SH = f"""#!/bin/sh
# Written by `compactor package --mwaa`, version {__version__}. MWAA runs it on every component before Airflow starts.
# compactor.yaml is beside the DAGs.
export COMPACTOR_CONFIG="${{AIRFLOW_HOME:-/usr/local/airflow}}/dags/compactor.yaml"
"""


def files() -> dict[str, bytes]:
    """Return the files of an environment: name → content."""
    plugins = io.BytesIO()
    with zipfile.ZipFile(plugins, "w") as archive:
        add(archive, WHEEL, wheel())
    return {"requirements.txt": _REQUIREMENTS_TXT.encode(), "plugins.zip": plugins.getvalue(), "startup.sh": _STARTUP_SH.encode()}


def wheel() -> bytes:
    """Return a wheel of this package without the demo's data and without PySpark among its requirements."""
    root = Path(__file__).parents[2]
    sources = sorted(
        path for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc" and path.relative_to(root).parts[:2] != ("demo", "landing")
    )
    content = {path.relative_to(root.parent).as_posix(): path.read_bytes() for path in sources}
    content[f"{_INFO}/METADATA"] = "\n".join(
        ["Metadata-Version: 2.1", "Name: cdc-compactor", f"Version: {__version__}+mwaa", *(f"Requires-Dist: {each}" for each in REQUIREMENTS), ""]
    ).encode()
    content[f"{_INFO}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: compactor\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    content[f"{_INFO}/entry_points.txt"] = b"[console_scripts]\ncompactor = compactor.cli.main:main\n"
    record = [f"{name},sha256={_hash(data)},{len(data)}" for name, data in content.items()]
    content[f"{_INFO}/RECORD"] = "\n".join([*record, f"{_INFO}/RECORD,,", ""]).encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in content.items():
            add(archive, name, data)
    return packed.getvalue()


def upload(location: str, config: Path) -> list[str]:
    """Write the files to a folder, local or in S3, and return their paths. MWAA uses the versions it was given, so older files are replaced."""
    storage, folder = opened(location, config)
    paths = {join(folder, name): content for name, content in files().items()}
    for path, content in paths.items():
        storage.write(path, content)
    return sorted(paths)


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
