"""The page about tables: what it says at the top, that it shows any past day, that it is one safe file, and how it looks in a browser."""

from __future__ import annotations

import html.parser
import os
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from compactor.app import App
from compactor.cli import main as cli
from compactor.core.model import times
from compactor.core.model.errors import Refused
from compactor.core.results.record import RunRecord
from compactor.core.results.timeline import Timeline, problems
from compactor.flows.read.timeline import timelines
from compactor.report.page import bytes_plot
from compactor.report.page import page as shown_page
from compactor.storage.local import LocalStorage
from tests.oracle.lake import Lake, table
from tests.oracle.model import line
from tests.parts.browser import ask, framed, picture
from tests.parts.s3 import Server
from tests.parts.s3_fixtures import s3_endpoint, server
from tests.report import synthetic

__all__ = ["s3_endpoint", "server"]
ROOT = Path(__file__).parents[2]
NOW = "2026-11-20T13:00"


@pytest.fixture(scope="module")
def school(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight tables, 45 versions: the last run of one failed, another has files in quarantine, two had no data for long."""
    config = synthetic.warehouse(tmp_path_factory.mktemp("school"), 8, 45)
    synthetic.fail(config, "ledger", synthetic.END + 2400)
    synthetic.quarantine(config, "invoice")
    return config


def page(config: Path, at: str = NOW, versions: int = 50) -> str:
    """The page of a moment."""
    with App.open(config) as app:
        text = app.report(at=at, versions=versions)
        assert not app.runtime.started
        return text


def text_of(source: str) -> str:
    """What a reader sees."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", re.sub(r"<(style|script)>.*?</\1>", " ", source, flags=re.DOTALL)))


def test_the_top_says_whether_all_is_well_and_what_to_do(school: Path) -> None:
    """Urgent things first, each with its commands; tables that need somebody come first in the list of tables."""
    source = page(school)
    text = text_of(source)
    assert "1 of 8 tables needs you; 1 of 8 tables deserves a look" in text
    assert text.index("InputRefused") < text.index("2 files in quarantine") < text.index("All tables")
    for command in ("compactor plan ledger", "compactor run ledger", "compactor quarantine invoice", "compactor quarantine invoice --replay"):
        assert f"<code>{command}</code>" in source
    overview = re.findall(r'<tr data-table="(\w+)">', source)
    assert overview[:3] == ["ledger", "invoice", "address"]
    assert len(overview) == 8


def test_what_a_table_shows_is_what_its_snapshots_have(school: Path) -> None:
    """Sums over the versions, schema changes, quarantine, runs, cost."""
    made = [*synthetic.snapshots(45)]
    written = sum(each.bytes_written for each in made)
    rewriting = sum(each.size for each in made if each.operation == "commit")
    with App.open(school) as app:
        tables = {each.table: each for each in timelines(app.runtime.environment(), app.specs(), times.to_seconds(NOW), 50)}
    invoice = tables["invoice"]
    assert sum(version.written or 0 for version in invoice.versions) == written
    assert sum(version.rewriting or 0 for version in invoice.versions) == rewriting
    assert [(version.rows, version.stored) for version in invoice.versions] == [(each.rows, each.size) for each in made]
    assert [[each.sentence for each in step.changes] for step in invoice.changes] == [["`email` was added: string, null in older rows"]]
    assert [(item.quarantined, item.reason[:15]) for item in invoice.quarantine] == [(0, "the gzip stream"), (7, "")]
    assert (invoice.vcpu_hours, invoice.last_outcome) == (pytest.approx(5 * 0.4), "idle")
    assert tables["ledger"].failure is not None
    part = page(school).split('id="table-invoice"')[1].split("</details></div>")[0]
    for text in ("`email` was added: string", "the gzip stream ends in the middle of the file", "Events of each commit", "resolve 55 s"):
        assert text in part


def test_a_past_day_is_shown_as_it_was(school: Path) -> None:
    """Nothing that came later is in it, however often it is asked for."""
    noon = page(school, "2026-11-19T12:30")
    assert noon == page(school, "2026-11-19T12:30")
    text = text_of(noon)
    assert "All 8 tables are fine" in text
    assert "as it was then" in text
    assert "version 21," in text
    assert "InputRefused" not in text
    assert "email" not in text
    assert "2026-11-19 13" not in text
    before = text_of(page(school, "2020-01-01"))
    assert "No version is committed yet" in before


def test_the_page_is_one_file_that_loads_nothing(school: Path) -> None:
    """Nor does it run what a name or an error contains. All elements are closed, and every link has its target."""

    class Reader(html.parser.HTMLParser):
        """Collects what the page refers to, and checks that elements nest."""

        def __init__(self) -> None:
            super().__init__()
            self.open: list[str] = []
            self.ids: set[str] = set()
            self.links: list[str] = []

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            values = dict(attrs)
            assert "src" not in values
            assert tag not in ("link", "iframe", "img", "object", "base", "form")
            assert not [name for name in values if name.startswith("on")]
            self.ids |= {str(values["id"])} if "id" in values else set()
            self.links += [str(values["href"])] if "href" in values else []
            if tag not in ("meta", "input"):
                self.open.append(tag)

        def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            """A closed shape of a picture."""

        def handle_endtag(self, tag: str) -> None:
            assert self.open.pop() == tag

    source = page(school)
    reader = Reader()
    reader.feed(source)
    assert reader.open == []
    assert {link.removeprefix("#") for link in reader.links} <= reader.ids
    assert all(link.startswith("#") for link in reader.links)
    assert "url(" not in source
    assert "@import" not in source
    assert "&lt;script&gt;alert(1)" in source
    assert source.count("<script>") == 1
    assert "default-src 'none'" in source


def test_colours_can_be_read(school: Path) -> None:
    """WCAG 2.1: text 4.5 to 1, marks of pictures 3 to 1, on light and on dark."""
    style = page(school).split("<style>")[1].split("</style>")[0]
    light, dark = (dict(re.findall(r"--(\w+):(#[0-9a-f]{3,6})", part)) for part in style.split("@media(prefers-color-scheme:dark)")[:2])
    for colours in (light, {**light, **dark}):
        for ground in ("bg", "card"):
            assert {name for name in ("ink", "soft", "link", "ok", "warn", "bad") if contrast(colours[name], colours[ground]) < 4.5} == set()
            assert {name for name in "abcd" if contrast(colours[name], colours[ground]) < 3} == set()
        for ground in ("okbg", "warnbg", "badbg"):
            assert contrast(colours["soft"], colours[ground]) >= 4.5
    assert len({*light} & {*dark}) == len(light)


def contrast(one: str, two: str) -> float:
    """The ratio of contrast of two colours, 1 to 21."""

    def luminance(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(each * 2 for each in colour[1:])
        parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_sizes_of_expired_versions_come_from_run_records(tmp_path: Path) -> None:
    """Vacuum leaves a stub without data; without a record its sizes are unknown, not zero."""
    config = synthetic.warehouse(tmp_path, 1, 10, records=9)
    folder = tmp_path / "warehouse/student/_compactor/snapshots"
    for snapshot in list(synthetic.snapshots(10))[:3]:
        (folder / f"{snapshot.version:020d}.json").write_bytes(snapshot.stub().to_bytes())
    with App.open(config) as app:
        (table,) = timelines(app.runtime.environment(), app.specs(), times.to_seconds(NOW), 50)
    first, second, third, fourth = table.versions[:4]
    assert (first.stored, first.written, first.rows) == (None, None, None)
    assert (second.rows, third.rows) == (600_000, 600_000)
    assert fourth.stored == list(synthetic.snapshots(10))[3].size
    assert "version 10" in text_of(page(config))


def test_the_sizes_of_a_version_have_all_its_files() -> None:
    """Those of the history and of the feed too."""
    lake = Lake(table(history=True, feed="net"))
    for at in range(4):
        lake.deliver(f"increment_20260101{at:02}/a.json", [line("u", [key], [at], {"a": at}) for key in range(3)])
        lake.run()
        newest = lake.newest()
        assert newest is not None
        (shown,) = timelines(lake.env(), [lake.spec], lake.now + 9, 50)
        assert newest.history is not None
        assert newest.feed is not None
        parts = [*newest.segments, newest.delta, *newest.history.parts, newest.feed.part]
        written = sum(part.size for part in parts if part is not None and newest.writer in part.path)
        assert shown.problem is None
        assert (shown.versions[-1].number, shown.versions[-1].written) == (newest.version, written)


def test_the_runs_of_a_past_moment_are_found_among_later_ones() -> None:
    """However many came since: the count is of those before it."""
    lake = Lake(table())
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1})])
    lake.run()
    moments = [f"2026-03-0{day}T00:00:00Z" for day in range(1, 6)]
    for day, moment in enumerate(moments):
        record = RunRecord("t", "committed", id=f"a{day}", started=moment, ended=moment)
        lake.storage.write(lake.layout.run(moment, record.id), record.to_bytes())
    (shown,) = timelines(lake.env(), [lake.spec], times.to_seconds("2026-03-03T12:00:00Z"), 2)
    assert [run.ended for run in shown.runs] == moments[1:3]


@pytest.mark.parametrize(
    ("hours", "expected"),
    [(0.5, []), (5.0, ["student"]), (30.0, ["", "student"])],
    ids=["soon after", "a quiet table", "no run for a day"],
)
def test_silence_is_noticed(tmp_path: Path, hours: float, expected: list[str]) -> None:
    """A table without data for much longer than usual, and a scheduler that has stopped."""
    config = synthetic.warehouse(tmp_path, 1, 20)
    now = synthetic.END + hours * 3600
    if hours < 24:
        synthetic.idle_run(config, "student", now - 60)
    with App.open(config) as app:
        tables = timelines(app.runtime.environment(), app.specs(), now, 50)
    assert [problem.table for problem in problems(tables, now)] == expected


def test_a_failure_is_over_when_a_later_run_went_well(school: Path, tmp_path: Path) -> None:
    """Also one that had nothing to do. A table that cannot be read is a problem of its own."""
    config = synthetic.warehouse(tmp_path, 2, 5)
    synthetic.fail(config, "student", synthetic.END + 600)
    (tmp_path / "warehouse/enrollment/_compactor/snapshots" / f"{5:020d}.json").write_text("{")
    now = synthetic.END + 1200
    with App.open(config) as app:
        listed = problems(timelines(app.runtime.environment(), app.specs(), now, 50), now)
        assert [(problem.table, problem.urgent) for problem in listed] == [("student", True), ("enrollment", True)]
        assert "cannot be read" in listed[1].text
        synthetic.idle_run(config, "student", synthetic.END + 900)
        tables = timelines(app.runtime.environment(), app.specs(["student"]), now, 50)
    assert problems(tables, now) == []
    folders = ["no table takes the files in /landing/new, such as a.json"]
    assert "The table is fine; no table takes some of the landed files" in text_of(shown_page(tables, now, "school", folders=folders))
    (never,) = problems([Timeline("t", "d.t")], now)
    assert (never.urgent, never.text, never.commands[-1]) == (False, "No run has looked at the table yet.", "compactor run t")


@pytest.mark.slow
def test_five_hundred_tables_are_one_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 versions and 2,500 run records, each of which is read once."""
    config = synthetic.warehouse(tmp_path, 500, 20)
    read: Counter[str] = Counter()

    def counted(storage: LocalStorage, path: str, real: Callable[[LocalStorage, str], bytes] = LocalStorage.read) -> bytes:
        read[path] += 1
        return real(storage, path)

    monkeypatch.setattr(LocalStorage, "read", counted)
    with App.open(config) as app:
        source = app.report(at=NOW)
    assert len(read) > 12_500
    assert {path: count for path, count in read.items() if count > 1} == {}
    assert len(re.findall(r'<details class="table"', source)) == 500
    assert "All 500 tables are fine" in text_of(source)
    assert len(source) < 12_000_000


def test_the_plot_of_bytes_is_a_file_of_its_own(school: Path) -> None:
    """With its sums as a legend; before the first commit there is none."""
    with App.open(school) as app:
        drawn = Path(app.write_plot(str(school.with_name("bytes.svg")))).read_text(encoding="utf-8")
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawn)
    assert texts[0].startswith("Bytes written, by ")
    assert re.fullmatch(r"written [\d.]+ [kMG]B", texts[1])
    assert texts[2].startswith("rewriting every table in each commit ")
    assert drawn.count("<rect") > 40
    assert drawn.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    assert bytes_plot([]) == ""


def test_the_page_is_an_extra(school: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the command names what to install."""
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with App.open(school) as app, pytest.raises(Refused, match=r"needs Jinja2, which the extra `report` installs"):
        app.report()


def test_the_command_writes_a_file_or_into_a_folder(school: Path, tmp_path: Path) -> None:
    """And prints where."""
    for out, place in ((tmp_path / "a.html", tmp_path / "a.html"), (tmp_path / "b", tmp_path / "b/index.html")):
        result = CliRunner().invoke(cli.app, ["report", "--config", str(school), "--out", str(out), "--as-of", NOW, "student"])
        assert (result.exit_code, result.output.strip()) == (0, str(place)), result.output
        assert "student" in place.read_text(encoding="utf-8")


# ---- in a browser ----------------------------------------------------------------------------------------------------

PICTURES = {
    "report.png": ("", 1100, 1130, False),
    "report-dark.png": ("#table-invoice", 1100, 1090, True),
    "report-phone.png": ("", 390, 1250, False),
}
"""Picture in docs/ → (part of the page that is open, width, height, dark)."""


@pytest.mark.slow
def test_the_command_writes_into_a_bucket(school: Path, server: Server, s3_endpoint: None) -> None:
    done = CliRunner().invoke(cli.app, ["report", "--out", "s3://lake/pages", "--config", str(school)])
    assert (done.exit_code, "s3://lake/pages/index.html" in done.output) == (0, True), done.output
    _, _, content = server.objects("lake")["pages/index.html"]
    assert "student" in text_of(content.decode())


def framed_report(folder: Path, source: str, width: int, height: int, script: str = "", fragment: str = "", dark: bool = False) -> str:
    """A page that shows the report in a frame."""
    if dark:
        source = source.replace("@media(prefers-color-scheme:dark)", "@media all")
    (folder / "report.html").write_text(source, encoding="utf-8")
    return framed(folder, f"report.html{fragment}", width, height, script)


@pytest.mark.engines
@pytest.mark.parametrize("width", [360, 390, 768, 1200])
def test_it_fits_any_width_and_its_script_works(school: Path, tmp_path: Path, width: int) -> None:
    """Nothing sticks out at the side, closed or open; the filter hides tables, a link opens its part, nothing is reported on the console."""
    script = """(() => {
        const wide = () => page.documentElement.scrollWidth;
        const first = wide(); page.querySelectorAll('details').forEach(each => each.open = true); const open = wide();
        const box = page.querySelector('input[type=search]'); box.value = 'INV'; box.dispatchEvent(new Event('input'));
        const shown = [...page.querySelectorAll('tr[data-table]')].filter(each => !each.hidden).length;
        return [first, open, shown, box.hidden];
    })()"""
    (tmp_path / "report.html").write_text(page(school), encoding="utf-8")
    assert ask(tmp_path, "report.html", width, script) == ([width, width, 1, False], [])


@pytest.mark.engines
@pytest.mark.parametrize("name", PICTURES)
def test_pictures_of_the_page(school: Path, tmp_path: Path, name: str) -> None:
    """`COMPACTOR_PICTURES=docs/images` writes those of the documents again."""
    fragment, width, height, dark = PICTURES[name]
    script = "const part = page.querySelector('details[open]'); if (part) page.body.replaceChildren(part);"
    source = page(school).replace(" &lt;script&gt;alert(1)&lt;/script&gt;", "")
    target = Path(os.environ.get("COMPACTOR_PICTURES", tmp_path)).absolute() / name
    picture(target, framed_report(tmp_path, source, width, height, script, fragment, dark), width, height)
    assert 10_000 < target.stat().st_size < 400_000
    kept = ROOT / "docs/images" / name
    assert kept.exists(), "the documents show it"
