"""A test environment beside production, by the command that docs/howto.md prints. Rows are computed without Spark."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from compactor.app.base import AppBase
from compactor.catalog.memory import MemoryCatalog
from compactor.cli import main as cli
from compactor.config import settings as config
from compactor.runtime import Runtime
from compactor.storage.local import LocalStorage
from tests.oracle.engine import ListEngine
from tests.oracle.model import line
from tests.oracle.reader import look

CONFIG = """
warehouse: {home}/lake
catalog: {{database: shop}}
tables:
  orders: {{key: [id], order_by: [seq], increments: "{home}/landing/orders/increment_%Y%m%d%H"}}
"""


def printed() -> tuple[dict[str, str], list[str]]:
    """The command of the section about two environments: its variables and its arguments."""
    page = (Path(__file__).parents[1] / "docs" / "howto.md").read_text(encoding="utf-8")
    section = page.partition("## Two environments")[2].partition("\n## ")[0]
    words = shlex.split(re.findall(r"^```\n(.*?)^```", section, re.MULTILINE | re.DOTALL)[0])
    at = words.index("compactor")
    return dict(word.split("=", 1) for word in words[:at]), words[at + 1 :]


def test_the_recipe_for_a_test_environment_leaves_productions_landing_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads the files that wait there. Without the word about the archive it is refused, and production goes on as if nobody had been there."""
    catalog, engine = MemoryCatalog(), ListEngine(LocalStorage())
    monkeypatch.setattr(AppBase, "_start", lambda *_: None)
    monkeypatch.setattr(Runtime, "_engine", lambda _: engine)
    monkeypatch.setattr(Runtime, "_catalog", lambda _: catalog)
    file = tmp_path / "compactor.yaml"
    file.write_text(CONFIG.format(home=tmp_path), encoding="utf-8")
    landing = tmp_path / "landing" / "orders"

    def land(number: int) -> None:
        place = landing / f"increment_202601010{number}" / "a.json"
        place.parent.mkdir(parents=True)
        place.write_text(line("c", [number], [number], {"a": number}), encoding="utf-8")

    def compactor(environment: dict[str, str], *arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(cli.app, [*arguments, "--config", str(file)], env=environment)
        return done.exit_code, " ".join(done.output.split())

    def rows(environment: dict[str, str]) -> object:
        shown = look(catalog, LocalStorage(), config.load(file, environment).spec("orders"))
        return shown and shown.rows

    def files() -> dict[str, tuple[int, bytes]]:
        return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in landing.rglob("*") if path.is_file()}

    land(1)
    assert compactor({}, "run")[0] == 0
    land(2)
    before = files()
    variables, arguments = printed()
    assert variables["COMPACTOR_WAREHOUSE"].startswith("s3://"), "the only thing on the page that is not there"
    variables["COMPACTOR_WAREHOUSE"] = str(tmp_path / "test")

    without = {name: value for name, value in variables.items() if "ARCHIVE" not in name}
    code, told = compactor(without, *arguments)
    assert (code, files(), rows(without)) == (1, before, None)
    assert f"{landing} belongs to the table {tmp_path}/lake/orders" in told
    assert compactor(variables, *arguments)[0] == 0
    assert (files(), rows(variables)) == (before, ((2, 2),))
    assert compactor({}, "run")[0] == 0
    assert rows({}) == ((1, 1), (2, 2))
    assert [Path(path).name for path in files()] == ["owner.json"]
