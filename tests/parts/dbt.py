"""dbt with its adapter for DuckDB, in an environment of its own: it asks for other versions of what the project uses. 60 packages, once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PACKAGES = ("dbt-core==1.11.16", "dbt-duckdb==1.11.1")
"""dbt-core 1.12 fetches a program from GitHub while it is installed."""

_ROOT = Path(__file__).parents[2]


def dbt() -> Path:
    """Return the program, installed if need be."""
    home = _ROOT / "build" / "dbt"
    installed = home / "-".join(["installed", *PACKAGES]).replace("=", "")
    if not installed.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", home], check=True)
        subprocess.run([_ROOT / "scripts" / "install.sh", home / "bin" / "python", *PACKAGES], check=True, cwd=_ROOT)
        installed.touch()
    return home / "bin" / "dbt"
