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

from compactor.core.results.phrases import visible
from compactor.ports import Storage
from tests.parts.odd_names import random_texts

SUBSTITUTED = "the value of PLANTED"
FOLDER, LATER = "2026112014", "2026112015"
CONFIG = """tables:
  t: {key: [id], order_by: [seq], increments: "in/%Y%m%d%H", archive: move, quarantine: 100%}
"""


class _Tags(HTMLParser):
    """The names of all elements and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.names = set[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names |= {tag, *(name for name, _ in attrs)}


def travel(
    store: Storage, warehouse: str, folder: Path, chance: random.Random, names: Sequence[str], more: str = "", erase: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Land a file for each of `names`, erase a row, then land files that cannot be used whole, and check all of their way.

    Returns the reports of the first run. `more`: more lines of configuration; `erase`: more options of `compactor erase`.
    """
    config = folder / "compactor.yaml"
    config.write_text(f"warehouse: {json.dumps(warehouse)}\n{CONFIG}{more}", encoding="utf-8")
    environment = {**os.environ, "PLANTED": SUBSTITUTED, "COMPACTOR_HASH_KEY": "a secret of some length"}

    def compactor(*words: str) -> tuple[str, str]:
        command = [sys.executable, "-m", "compactor", *words, "--config", str(config)]
        done = subprocess.run(command, capture_output=True, timeout=900, check=False, env=environment, cwd=folder)
        out, log = done.stdout.decode(), done.stderr.decode()
        # a file that waits because no engine can open its name is a problem
        assert done.returncode in ((0, 1) if words[0] == "plan" else (0,)), log
        assert SUBSTITUTED not in out + log
        return out, log

    def run(files: int) -> list[dict[str, Any]]:
        out, log = compactor("run", "--output", "json", "--log-format", "json")
        reports: list[dict[str, Any]] = json.loads(out)
        assert [("committed", files)] == [(report["outcome"], report["files"]) for report in reports]
        assert all("message" in json.loads(line) for line in log.split("\n") if line)
        return reports

    texts = random_texts(chance, 2 * len(names))
    rows = dict(zip(texts[::2], (f"marker{number:04} {text}" for number, text in enumerate(texts[1::2]))))
    for name, (key, value) in zip(names, rows.items()):
        _land(store, FOLDER, warehouse, name, json.dumps({"id": key, "seq": 1, "name": value}, ensure_ascii=chance.random() < 0.5))
    reports = run(len(names))
    _check_rows(compactor, rows)
    assert sorted(names) == _below(store, f"{warehouse}/t/archive/{FOLDER}")
    key = chance.choice([*rows])
    for text in compactor("erase", "t", "--now", "--key", json.dumps({"id": key}), *erase):
        assert visible(text, "\n\t") == text
    marker = rows.pop(key).partition(" ")[0]
    _check_rows(compactor, rows)
    compactor("verify")
    assert sorted(names) == _below(store, f"{warehouse}/t/archive/{FOLDER}")

    # a line ends with the characters of one; others are those of the text
    invalid = {name: f"no JSON {text}".translate({10: " ", 13: " "}).strip() for name, text in zip(names[::3], texts)}
    for name, line in invalid.items():
        _land(store, LATER, warehouse, name, line)
    unreadable = [f"{end}{names[0][:20]}.json.gz" for end in ("{", "'")]
    for name in unreadable:
        store.write(f"{warehouse}/in/{LATER}/{name}", b"no gzip at all")
    rows["fine"] = "marker9999"
    _land(store, LATER, warehouse, "fine.json", json.dumps({"id": "fine", "seq": 1, "name": rows["fine"]}))
    run(len(invalid) + len(unreadable) + 1)
    _check_rows(compactor, rows)
    shown = {item["path"].partition("/")[2]: item for item in json.loads(compactor("quarantine", "t", "--output", "json")[0])}
    assert sorted([*invalid, *unreadable]) == sorted(shown)
    assert [[(1, text)] for text in invalid.values()] == [[(item["record"], item["text"]) for item in shown[name]["unusable"]] for name in invalid]
    for words in (("quarantine",), ("quarantine", "t"), ("status",), ("log", "t", "--inputs"), ("verify",), ("plan",), ("report",)):
        for text in compactor(*words):
            assert visible(text, "\n\t") == text, words
    tags = _Tags()
    page = (folder / "report.html").read_bytes()
    tags.feed(page.decode())
    assert "planted" not in tags.names
    for content in (page, *(store.read(info.path) for info in store.list(warehouse) if not info.problem)):
        assert SUBSTITUTED.encode() not in content
        assert f"{marker} ".encode() not in content
    return reports


def _land(store: Storage, folder: str, warehouse: str, name: str, line: str) -> None:
    data = f"{line}\n".encode()
    store.write(f"{warehouse}/in/{folder}/{name}", gzip.compress(data) if name.endswith(".gz") else data)


def _check_rows(compactor: Callable[..., tuple[str, str]], rows: dict[str, str]) -> None:
    for engine in ("duckdb", "spark"):
        found = json.loads(compactor("sql", "select id, name from t", "--engine", engine, "--output", "json")[0])
        assert rows == {row["id"]: row["name"] for row in found}
        assert len(rows) == len(found)


def _below(store: Storage, folder: str) -> list[str]:
    return sorted(info.path.removeprefix(f"{folder}/") for info in store.list(folder))
