"""`columns:`: values that are left out, hashed, masked or made null are in nothing that compactor writes."""

from __future__ import annotations

import gzip
import hashlib
import hmac
from pathlib import Path

import pytest

from compactor.core.model.errors import Refused
from compactor.core.model.policy import Protection
from compactor.flows.table import Table
from compactor.flows.verbs import rebuild_table
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

SECRET = "a secret of some length"
RULES = (
    Protection("SSN", "exclude"),
    Protection("mail", "hash"),
    Protection("card", "mask", 4),
    Protection("note", "null"),
    Protection("pay", "hash"),
)
ROW = {
    "id": 1,
    "seq": 1,
    "name": "Ann",
    "ssn": "078-05-1120",
    "mail": "ann.secretive@example",
    "card": "4111222233334444",
    "note": "knows-too-much",
    "pay": 1234567.5,
}
VALUES = ("078-05-1120", "ann.secretive@example", "41112222", "knows-too-much", "1234567")


def hashed(text: str) -> str:
    """What Python's own HMAC gives."""
    return hmac.new(SECRET.encode(), text.encode(), hashlib.sha256).hexdigest()


def written(lake: Lake, root: Path) -> dict[str, bytes]:
    """Every object below the table's root but its landing and archive: its bytes, decompressed, and for Parquet its values too."""
    contents = {}
    for path in root.rglob("*"):
        inside = path.relative_to(root).as_posix()
        if path.is_file() and not inside.startswith(("incremental/", "archive/")):
            data = path.read_bytes()
            if path.suffix == ".gz":
                data = gzip.decompress(data)
            if path.suffix == ".parquet":
                data += "\n".join(lake.spark.read.parquet(str(path)).toJSON().collect()).encode()
            contents[inside] = data
    return contents


@pytest.mark.slow
def test_protected_values_are_in_no_object_and_equal_values_have_equal_hashes(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """In base, Delta, history, feed, ledger, quarantine; with late, partial and invalid records, a compaction and a rebuild."""
    monkeypatch.setenv("COMPACTOR_HASH_KEY", SECRET)
    spec = lake.spec(columns=RULES, history=True, feed="net", archive="move", target_file_bytes=1 << 20, write_mode="merge-on-read")
    lake.land(spec, 0, [ROW, {**ROW, "id": 2, "card": "12"}])
    lake.run(spec)
    lake.land(
        spec, 1, [{**ROW, "seq": 3}, {**ROW, "id": 3, "seq": 2, "mail": None, "card": None, "pay": 1234567.50}, {**ROW, "seq": 2, "name": "late"}]
    )
    lake.land(spec, 2, [{**ROW, "id": None, "seq": 9}, '{"id": 4, "ssn": "078-05-1120", broken'], "part-1.json")
    report = lake.run(spec)
    assert report.error is None, report
    rows = {row["id"]: row for row in lake.rows(spec)}
    assert sorted(rows[1]) == ["card", "id", "mail", "name", "note", "pay", "seq"]
    assert rows[1] == {
        "id": 1,
        "seq": 3,
        "name": "Ann",
        "mail": hashed("ann.secretive@example"),
        "card": "************4444",
        "note": None,
        "pay": hashed("1234567.5"),
    }
    assert (rows[2]["card"], rows[3]["card"], rows[3]["mail"], rows[3]["pay"]) == ("**", None, None, rows[1]["pay"])
    assert lake.problems(spec) == []

    lake.land(spec, 3, [{**ROW, "seq": 4}])
    assert lake.run(lake.with_settings(spec, compact_every=0.0)).operations == ("commit 3", "compact 4")
    assert rebuild_table(Table(lake.env, spec)).outcome == "published"
    contents = written(lake, Path(spec.root))
    assert {"base", "delta", "feed", "history", "quarantine", "_compactor"} == {name.split("/")[0] for name in contents}
    found = [
        (name, value)
        for name, data in contents.items()
        for value in VALUES
        if value.encode() in data and not (name.endswith(".json") and "quarantine/" in name and not name.endswith(".reason.json"))
    ]
    assert found == []
    assert f"{spec.name}_incremental" not in {row.tableName for row in lake.spark.sql(f"SHOW TABLES IN {lake.database}").collect()}


@pytest.mark.slow
def test_rules_that_change_and_secrets_that_are_missing_are_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored rows would keep what they have."""
    monkeypatch.delenv("COMPACTOR_HASH_KEY", raising=False)
    spec = lake.spec("u", columns=RULES)
    lake.land(spec, 0, [ROW])
    with pytest.raises(Refused, match=r"needs a secret\. Set the environment variable COMPACTOR_HASH_KEY to at least 16 bytes"):
        lake.run(spec)
    assert lake.landed(spec) == ["part-0.json"]
    monkeypatch.setenv("COMPACTOR_HASH_KEY", SECRET)
    lake.run(spec)
    lake.land(spec, 1, [{**ROW, "seq": 2}])
    other = (*RULES[:2], Protection("card", "mask", 2), *RULES[3:])
    with pytest.raises(Refused, match=r"`columns:` has mask\(2\) for card, but stored rows were written with mask\(4\)"):
        lake.run(lake.with_settings(spec, columns=other))
    with pytest.raises(Refused, match="`columns:` has exclude for name, but stored rows were written with no rule"):
        lake.run(lake.with_settings(spec, columns=(*RULES, Protection("Name", "exclude"))))
    # nor does a rebuild change them: older versions and the feed would have what they have
    for rules in (other, (*RULES, Protection("name", "hash")), ()):
        with pytest.raises(Refused, match=r"`columns:` has .*, but stored rows were written with"):
            rebuild_table(Table(lake.env, lake.with_settings(spec, columns=rules)), accept=True)
    monkeypatch.setenv("COMPACTOR_HASH_KEY", SECRET[::-1])
    with pytest.raises(Refused, match="is not the one that mail was hashed with, so equal values would have other hashes"):
        lake.run(spec)
    monkeypatch.setenv("COMPACTOR_HASH_KEY", SECRET)
    assert lake.run(spec).outcome == "committed"
