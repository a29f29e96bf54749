"""For every test: a JVM that runs for seconds compiles as little as it can."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "parts" / "quick"))
