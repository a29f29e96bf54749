"""`views.py CONFIG TABLE...`: the rows of these views as one JSON object, asked in one Spark."""

from __future__ import annotations

import sys

from compactor.app.app import App

with App.open(sys.argv[1]) as app:
    shown = {name: "[" + ",".join(app.sql(f"select * from {name}", engine="spark")) + "]" for name in sys.argv[2:]}
print("{" + ",".join(f'"{name}": {rows}' for name, rows in shown.items()) + "}")
