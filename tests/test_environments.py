"""Commands that docs/operations.md prints: a test environment beside production, and an adopted base. Rows are computed without Spark."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from compactor.app.base import AppBase
from compactor.cli import main as cli
from compactor.config import settings as config
from compactor.runtime import Runtime
from compactor.storage.local import LocalStorage
from tests.oracle.model import line
from tests.oracle.reader import look
from tests.oracle.whole_engine import WholeEngine
from tests.parts.memory_catalog import MemoryCatalog

CONFIG = """
warehouse: {home}/lake
catalog: {{database: shop}}
tables:
  orders: {{key: [id], order_by: [seq], increments: "{home}/landing/orders/increment_%Y%m%d%H"}}
"""


def printed(section: str) -> list[list[str]]:
    """The words of each command of a section."""
    page = (Path(__file__).parents[1] / "docs" / "operations.md").read_text(encoding="utf-8")
    (block, *_) = re.findall(r"^```\n(.*?)^```", page.partition(f"## {section}")[2].partition("\n## ")[0], re.MULTILINE | re.DOTALL)
    return [shlex.split(text, comments=True) for text in block.splitlines()]


class Shop:
    """A warehouse with a table `orders` below a folder, and the command line of whoever uses it."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self.landing, self.file = home, home / "landing" / "orders", home / "compactor.yaml"
        self.catalog, engine = MemoryCatalog(), WholeEngine(LocalStorage())
        self.started = 0
        monkeypatch.setattr(AppBase, "_start", self._start)
        monkeypatch.setattr(Runtime, "_engine", lambda _: engine)
        monkeypatch.setattr(Runtime, "_catalog", lambda _: self.catalog)
        self.file.write_text(CONFIG.format(home=home), encoding="utf-8")

    def _start(self, *_: object) -> None:
        self.started += 1

    def land(self, number: int) -> None:
        """A new row."""
        place = self.landing / f"increment_202611201{number}" / "a.json"
        place.parent.mkdir(parents=True)
        place.write_text(line("c", [number], [number], {"a": number}), encoding="utf-8")

    def compactor(self, environment: dict[str, str], *arguments: str) -> tuple[int, str]:
        """Type a command."""
        done = CliRunner().invoke(cli.app, [*arguments, "--config", str(self.file)], env=environment)
        return done.exit_code, " ".join(f"{done.output} {done.exception or ''}".split())

    def rows(self, environment: dict[str, str]) -> object:
        """What the view shows."""
        shown = look(self.catalog, LocalStorage(), config.load(self.file, environment).spec("orders"))
        return shown and shown.rows

    def files(self) -> dict[str, tuple[int, bytes]]:
        """What lies in landing."""
        return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in self.landing.rglob("*") if path.is_file()}


def test_the_recipe_for_a_test_environment_leaves_productions_landing_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads the files that wait there. Without the word about the archive it is refused, and production goes on as if nobody had been there."""
    shop = Shop(tmp_path, monkeypatch)
    shop.land(1)
    assert shop.compactor({}, "run")[0] == 0
    shop.land(2)
    before = shop.files()
    (words,) = printed("Two environments")
    at = words.index("compactor")
    variables, arguments = dict(word.split("=", 1) for word in words[:at]), words[at + 1 :]
    assert variables["COMPACTOR_WAREHOUSE"].startswith("s3://"), "the only thing on the page that is not there"
    variables["COMPACTOR_WAREHOUSE"] = str(tmp_path / "test")

    without = {name: value for name, value in variables.items() if "ARCHIVE" not in name}
    code, told = shop.compactor(without, *arguments)
    assert (code, shop.files(), shop.rows(without)) == (1, before, None)
    assert f"{shop.landing} belongs to the table {tmp_path}/lake/orders" in told
    assert shop.compactor(variables, *arguments)[0] == 0
    assert (shop.files(), shop.rows(variables)) == (before, ((2, 2),))
    assert shop.compactor({}, "run")[0] == 0
    assert shop.rows({}) == ((1, 1), (2, 2))
    assert [Path(path).name for path in shop.files()] == ["owner.json"]


def test_a_base_is_adopted_by_the_commands_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What its rows contain is not read, what landed later is. A command that cannot work is refused before Spark starts."""
    shop = Shop(tmp_path, monkeypatch)
    (tmp_path / "hive").mkdir()
    (tmp_path / "hive" / "000000_0").write_text(json.dumps({"id": 4, "a": 40}) + "\n", encoding="utf-8")
    shop.land(4)
    shop.land(5)
    commands = [
        [str(tmp_path / "hive") if word.startswith("s3://") else word for word in words[1:]] for words in printed("Move from an existing Hive base")
    ]
    code, message = shop.compactor({}, *commands[0][:3])
    assert (code, shop.started, "--ingested-through" in message) == (2, 0, True)
    assert shop.compactor({}, *commands[0][:2], str(tmp_path / "nothing"), *commands[0][3:])[0] == 1
    assert shop.started == 0
    assert [shop.compactor({}, *words)[0] for words in commands] == [0, 0, 0]
    assert shop.rows({}) == ((4, 40), (5, 5))
