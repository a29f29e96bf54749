"""Small files that need much memory: what goes beyond `limits:` is in quarantine, and everything else is ingested."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from compactor.core.model.errors import InputRefused, SchemaRefused
from compactor.core.model.inputs import InputLimits
from tests.spark.lake import Lake
from tests.spark.test_csv import packed

pytestmark = pytest.mark.spark

LOW = InputLimits(columns=20, record_bytes=100_000, unpacked_bytes=200_000)


def put(spec: Any, files: dict[str, bytes | str], hour: int = 1) -> None:
    folder = Path(spec.landing) / f"increment_20240305{hour:02d}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def row(number: int, **more: Any) -> str:
    return json.dumps({"id": number, "seq": 1, **more}) + "\n"


def reasons(spec: Any) -> dict[str, str]:
    """File name → the first reason in quarantine."""
    found = {}
    for path in Path(spec.root).rglob("*.reason.json"):
        told = json.loads(path.read_text())
        found[Path(told["path"]).name] = told["unusable"][0]["reason"]
    return found


@pytest.mark.slow
def test_json_beyond_the_limits(lake: Lake) -> None:
    """One run: bombs, long records, too many columns in one record, in one file, and inside of a struct; and files that are none of these."""
    spec = lake.spec(limits=LOW, quarantine_share=1.0)
    long, keys = "a" * 150_000, {f"k{n}": n for n in range(30)}
    put(spec, {
        "fine.json": row(1),
        "fine.json.zst": packed(lake, "zst", row(2).encode()),
        "later.json": row(3) + row(5) + row(4, v=long),
        "bomb.json.gz": gzip.compress(row(6, v=long).encode()),
        "bomb.json.bz2": packed(lake, "bzip2", row(7, v=long).encode()),
        "bomb.json.zst": packed(lake, "zst", row(8, v=long).encode()),
        "long.json.zst": packed(lake, "zst", row(9).encode() * 20_000),
        "wide.json": row(10, **keys),
        "many.json": "".join(row(11 + n, **{f"m{n}": n}) for n in range(30)),
    })  # fmt: skip
    lake.run(spec)
    assert sorted(row["id"] for row in lake.rows(spec)) == [1, 2, 3, 5]
    first, wide = (
        "begins with a line of more than 100,000 bytes",
        "columns and members of structs, and the limit is 20: set `limits: false`",
    )
    found = reasons(spec)
    assert {name for name, reason in found.items() if first in reason} == {"bomb.json.gz", "bomb.json.bz2", "bomb.json.zst"}
    assert {name for name, reason in found.items() if wide in reason} == {"wide.json", "many.json"}
    assert found["later.json"] == "has 150,028 bytes, and the limit is 100,000: set `limits: false`"
    assert "unpacks to more than 200,000 bytes: set `limits: false`" in found["long.json.zst"]
    assert len(found) == 7
    nested = lake.with_settings(spec, limits=InputLimits(columns=40))
    put(nested, {"nested.json": row(50, n={"a": [{**keys, **{f"b{n}": n for n in range(30)}}]})}, hour=2)
    with pytest.raises(InputRefused, match=r"nested\.json: has 64 columns and members of structs, and the limit is 40"):
        lake.run(nested)


def test_packed_files_that_hadoop_does_not_unpack(lake: Lake) -> None:
    """A suffix in upper case; snappy as other tools write it, whose first bytes are no length: Hadoop would reserve gigabytes."""
    spec = lake.spec(quarantine_share=1.0)
    put(spec, {"fine.json": row(1), "UPPER.JSON.GZ": gzip.compress(row(2).encode()), "A.JSON.ZST": packed(lake, "zst", row(3).encode())})
    put(spec, {"a.json.snappy": b"\xff\x06\x00\x00sNaPpY" + b"\x01" * 9, "b.json.snappy": b"\x11\x40" + row(5).encode()})
    put(spec, {"c.json.snappy": packed(lake, "snappy", row(4).encode())})
    lake.run(spec)
    assert sorted(row["id"] for row in lake.rows(spec)) == [1, 2, 3, 4]
    assert [file for file, reason in reasons(spec).items() if "not in Hadoop's block form" not in reason] == [], reasons(spec)
    assert sorted(reasons(spec)) == ["a.json.snappy", "b.json.snappy"]


def test_columns_that_only_all_files_together_have(lake: Lake) -> None:
    """No file is to blame: the run is refused."""
    spec = lake.spec(limits=LOW)
    put(spec, {f"{n}.json": row(n, **{f"c{n}_{at}": 1 for at in range(9)}) for n in range(3)})
    with pytest.raises(SchemaRefused, match="together: has 29 columns and members of structs, and the limit is 20"):
        lake.run(spec)


def test_csv_beyond_the_limits(lake: Lake) -> None:
    """Below the header, or the header itself."""
    spec = lake.spec(limits=LOW, quarantine_share=1.0)
    names = ",".join(f"c{n}" for n in range(30))
    put(spec, {
        "fine.csv": "id,seq,v\n1,1,a\n",
        "value.csv": "id,seq,v\n3,1," + "a" * 150_000 + "\n",
        "header.csv": f"id,seq,{names}\n4,1,{names}\n",
    })  # fmt: skip
    lake.run(spec)
    assert lake.rows(spec) == [{"id": 1, "seq": 1, "v": "a"}]
    found = reasons(spec)
    assert "has 32 columns" in found["header.csv"]
    assert "begins with a line of more than 100,000 bytes: set `limits: false`" in found["value.csv"]


@pytest.mark.slow
def test_real_bombs_with_the_default_limits(lake: Lake, tmp_path: Path) -> None:
    """1.4 MB of gzip with one line of 1.4 GB, and 600 kB with 40,000 keys. Neither reaches Spark's reader."""
    spec = lake.spec(quarantine_share=1.0)
    put(spec, {"fine.json": row(1), "keys.json": row(2, **{f"key{n}": n for n in range(40_000)})})
    with gzip.open(Path(spec.landing) / "increment_2024030501" / "bomb.json.gz", "wb", compresslevel=9) as bomb:
        bomb.write(b'{"id": 3, "seq": 1, "v": "')
        for _ in range(1400):
            bomb.write(b"a" * 1_000_000)
        bomb.write(b'"}\n')
    lake.run(spec)
    assert [row["id"] for row in lake.rows(spec)] == [1]
    found = reasons(spec)
    assert "has 40,002 columns" in found["keys.json"]
    assert "begins with a line of more than 67,108,864 bytes" in found["bomb.json.gz"]
