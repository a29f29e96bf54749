"""Makes compactor/demo/landing from the captured stream in tests/capture: the files a sink would have left, hour by hour.

    python scripts/make_demo_data.py

Real Debezium JSON (values with their schema, gzipped), nine hours, six tables; the same bytes every time.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLES = ("student", "enrollment", "ledger", "toast_def", "trunc_solo", "audit_log")
TARGET = ROOT / "compactor" / "demo" / "landing"
BYTES_MAX = 1_500_000


def main() -> None:
    """Replace the folder."""
    sys.path.insert(0, str(ROOT))
    from tests.capture import landing

    shutil.rmtree(TARGET, ignore_errors=True)
    files = landing.land(TARGET, "debezium_json_value", only=TABLES, compress=True)
    size = sum(path.stat().st_size for path in files)
    if size > BYTES_MAX:
        raise SystemExit(f"{TARGET}: {size:,} bytes, more than a package should carry ({BYTES_MAX:,})")
    print(f"{TARGET}: {len(files)} files, {size:,} bytes")


if __name__ == "__main__":
    main()
