"""The input of all systems, made once by DuckDB; the right answer over it; the comparison of a final table with that."""

from __future__ import annotations

from pathlib import Path

import duckdb

COLUMNS = ("id", "seq", "name", "email", "region", "amount", "changed_at", "token")
"""The columns of the final table. Landed files also have `op`: c, u or d."""

_ROW = """
    {id} AS id, {seq} AS seq, {op} AS op, 'customer ' || {id} AS name, 'c' || ({id} % 5000) || '@example.org' AS email,
    CAST({id} % 200 AS INTEGER) AS region, CAST((({id} * 37 + {seq}) % 100000) / 100 AS DECIMAL(12,2)) AS amount,
    make_timestamptz((1700000000 + {id} % 31536000) * 1000000) AS changed_at, CAST(hash({id}, {seq}) >> 1 AS BIGINT) AS token
"""
_ROWS_A_FILE = 1_000_000


def land(folder: Path, rows: int, changes: int, hours: int) -> Path:
    """Write hour 0, every row once, and `hours` hours of changes into `folder`/<hour>; of ten changes eight update, one deletes, one inserts."""
    for number, first in enumerate(range(0, rows, _ROWS_A_FILE)):
        source = f"(SELECT i AS k FROM range({first}, {min(rows, first + _ROWS_A_FILE)}) AS r(i))"
        _copy(f"SELECT {_ROW.format(id='k', seq='k', op=repr('c'))} FROM {source}", folder / "0" / f"part-{number}.parquet")
    for hour in range(1, hours + 1):
        seq = rows * (hour + 1)
        key = f"CASE WHEN i % 10 = 9 THEN {seq} + i ELSE CAST(hash(i, {hour}) % {rows} AS BIGINT) END"
        op = "CASE i % 10 WHEN 8 THEN 'd' WHEN 9 THEN 'c' ELSE 'u' END"
        source = f"(SELECT {key} AS k, {seq} + i AS s, {op} AS o FROM range({changes}) AS r(i))"
        _copy(f"SELECT {_ROW.format(id='k', seq='s', op='o')} FROM {source}", folder / str(hour) / "part-0.parquet")
    return folder


def newest(source: str, columns: str = "*") -> str:
    """Return SQL for the newest row of each key, deleted ones included. It runs on Spark and on DuckDB."""
    return f"SELECT {columns} FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY seq DESC) AS n FROM {source}) t WHERE n = 1"


def differences(landed: Path, final: Path) -> list[str]:
    """Return up to five rows that only one of the right answer and the table in `final`/*.parquet has, each with its side."""
    names = ", ".join("epoch_us(changed_at) AS changed_at" if name == "changed_at" else name for name in COLUMNS)
    answer = newest(f"read_parquet('{landed}/*/*.parquet')", names) + " AND op <> 'd'"
    stored = f"SELECT {names} FROM read_parquet('{final}/**/*.parquet')"
    database = _database()
    return [
        f"{side}: {row}"
        for side, one, other in (("missing", answer, stored), ("too many", stored, answer))
        for row in database.execute(f"({one}) EXCEPT ALL ({other}) LIMIT 5").fetchall()
    ]


def _copy(query: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    _database().execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")


def _database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 2, "memory_limit": "6GB"})
