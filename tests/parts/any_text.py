"""The way of files with any name and records with any text: landing, table, quarantine, archive, report, logs, erase, verify; by the command line.

`travel` works on any store. Nothing that is printed or written may hold the value of an environment variable that a name or a text mentions, and no
text reaches a terminal or a page unescaped.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from compactor.core.results.visible import visible
from compactor.ports import Storage
from tests.parts.odd_names import random_texts

SUBSTITUTED = "the value of PLANTED"
FOLDER = "2026112014"
CONFIG = """tables:
  t: {key: [id], order_by: [seq], increments: "in/%Y%m%d%H", archive: move, quarantine: {max_share: 1.0}}
"""


class _Tags(HTMLParser):
    """The names of all elements and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.names = set[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names |= {tag, *(name for name, _ in attrs)}


def travel(store: Storage, warehouse: str, folder: Path, chance: random.Random, names: Sequence[str], more: str = "") -> list[dict[str, Any]]:
    """Land a file for each of `names`, and check all of its way. Returns the reports of the run. `more`: more lines of configuration.

    Every third file has an invalid record, and two further files are no gzip.
    """
    config = folder / "compactor.yaml"
    config.write_text(f"warehouse: {json.dumps(warehouse)}\n{CONFIG}{more}", encoding="utf-8")
    environment = {**os.environ, "PLANTED": SUBSTITUTED, "COMPACTOR_HASH_KEY": "a secret of some length"}

    def compactor(*words: str) -> tuple[str, str]:
        command = [sys.executable, "-m", "compactor", *words, "--config", str(config)]
        done = subprocess.run(command, capture_output=True, timeout=900, check=False, env=environment, cwd=folder)
        out, log = done.stdout.decode(), done.stderr.decode()
        assert 0 == done.returncode, log
        assert SUBSTITUTED not in out + log
        return out, log

    rows, invalid, unreadable = _land(store, f"{warehouse}/in/{FOLDER}", chance, names)
    out, log = compactor("run", "--output", "json", "--log-format", "json")
    reports: list[dict[str, Any]] = json.loads(out)
    assert [("committed", len(names) + len(unreadable))] == [(report["outcome"], report["files"]) for report in reports]
    assert all("message" in json.loads(line) for line in log.split("\n") if line)
    _check_rows(compactor, rows)
    assert sorted(names) == _below(store, f"{warehouse}/t/archive/{FOLDER}")
    shown = {item["path"].partition("/")[2]: item for item in json.loads(compactor("quarantine", "show", "t", "--output", "json")[0])}
    assert sorted([*invalid, *unreadable]) == sorted(shown)
    assert [[(2, text)] for text in invalid.values()] == [[(item["record"], item["text"]) for item in shown[name]["unusable"]] for name in invalid]
    for words in (("quarantine", "list"), ("quarantine", "show", "t"), ("status",), ("log", "t", "--inputs"), ("verify",), ("plan",)):
        for text in compactor(*words):
            assert visible(text, "\n\t") == text, words
    key = chance.choice([*rows])
    for text in compactor("erase", "t", "--now", "--key", json.dumps({"id": key})):
        assert visible(text, "\n\t") == text
    marker = rows.pop(key).partition(" ")[0]
    _check_rows(compactor, rows)
    compactor("verify")
    compactor("report")
    tags = _Tags()
    page = (folder / "report.html").read_bytes()
    tags.feed(page.decode())
    assert "planted" not in tags.names
    for content in (page, *(store.read(info.path) for info in store.list(warehouse))):
        assert SUBSTITUTED.encode() not in content
        assert f"{marker} ".encode() not in content
    assert sorted(names) == _below(store, f"{warehouse}/t/archive/{FOLDER}")
    return reports


def _land(store: Storage, folder: str, chance: random.Random, names: Sequence[str]) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """Return the rows (key → value), the invalid records (file → text), and the names of the unreadable files."""
    keys = random_texts(chance, len(names))
    values = chance.sample(keys, len(keys))
    rows = {key: f"marker{number:04} {value}" for number, (key, value) in enumerate(zip(keys, values))}
    invalid = {}
    for number, (name, key) in enumerate(zip(names, keys)):
        text = json.dumps({"id": key, "seq": 1, "name": rows[key]}, ensure_ascii=chance.random() < 0.5) + "\n"
        if number % 3 == 0:
            # a line ends with the characters of one; others are those of the text
            invalid[name] = f"no JSON {values[number]}".translate({10: " ", 13: " "}).strip()
            text += invalid[name] + "\n"
        data = text.encode()
        store.write(f"{folder}/{name}", gzip.compress(data) if name.endswith(".gz") else data)
    unreadable = [f"{end}{names[0][:20]}.json.gz" for end in ("{", "'")]
    for name in unreadable:
        store.write(f"{folder}/{name}", b"no gzip at all")
    return rows, invalid, unreadable


def _check_rows(compactor: Callable[..., tuple[str, str]], rows: dict[str, str]) -> None:
    found = json.loads(compactor("sql", "select id, name from t", "--output", "json")[0])
    assert rows == {row["id"]: row["name"] for row in found}
    assert len(rows) == len(found)


def _below(store: Storage, folder: str) -> list[str]:
    return sorted(info.path.removeprefix(f"{folder}/") for info in store.list(folder))
