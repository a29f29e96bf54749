"""Tables on a terminal: what fits into 80 columns, what `--verbose` shows, and what a pipe gets."""

from __future__ import annotations

import dataclasses
import io
import json
import sys
import time

import pytest

from compactor.cli import console, grid
from compactor.core.results.record import TableReport
from compactor.report import panels
from tests.test_cli import SNAPSHOT, STATUS


class Terminal(io.StringIO):
    """A standard output that is a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def narrow(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make standard output a terminal of 80 columns."""
    shown = Terminal()
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    return shown


def printed(terminal: Terminal) -> list[str]:
    """The lines since the last call, without blanks at the end."""
    lines = [line.rstrip() for line in terminal.getvalue().splitlines()]
    terminal.seek(0)
    terminal.truncate()
    return lines


BUSY = dataclasses.replace(
    STATUS, table="enrollment_history", rows=123_456_789, bytes=5 << 30, waiting_files=12, waiting_bytes=3 << 20, delta_rows=1_234_567
)


def test_status_fits_into_80_columns_and_names_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line a table; the name, the newest commit, the rows, what waits and quarantine are always there, with units."""
    terminal = narrow(monkeypatch)
    console.statuses([STATUS, BUSY])
    lines = printed(terminal)
    assert len(lines) == 4
    assert max(map(len, lines[:3])) <= 80
    assert lines[0].split() == ["table", "committed", "(UTC)", "max", "rows", "waiting", "quarantine"]
    assert lines[2].split() == ["enrollment_history", "2024-03-05", "03:10", "123,456,789", "12", "files,", "3.0", "MB", "1"]
    assert lines[3] == "not shown: version, newest folder, segments, size, delta rows, read strategy, waiting since, whole to (--verbose)"


def test_wide_shows_every_column(monkeypatch: pytest.MonkeyPatch) -> None:
    """On lines longer than the terminal, which can be scrolled or piped."""
    terminal = narrow(monkeypatch)
    console.statuses([STATUS], wide=True)
    header, line = printed(terminal)
    assert ["waiting", "since", "quarantine", "whole", "to"] == header.split()[-5:]
    assert "99 B" in line


def test_log_and_run_fit_into_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line for each Snapshot, and for each table of a run."""
    terminal = narrow(monkeypatch)
    counts = {"read": 1_234_567, "applied": 1_234_567, "late": 12}
    console.snapshots([dataclasses.replace(SNAPSHOT, counts=counts, run="nightly-2024-03-05")])
    lines = printed(terminal)
    assert max(map(len, lines[:-1])) <= 80
    assert lines[0].split()[:3] == ["version", "time", "(UTC)"]
    console.reports([TableReport("enrollment_history", "committed", 12, ("commit 12", "compact 13"), 400, counts, 12_345_678, bytes_written=5 << 30)])
    lines = printed(terminal)
    assert max(map(len, lines[:2])) <= 80
    assert lines[0].split()[:2] == ["table", "outcome"]


def test_bars_say_that_spark_starts_and_how_many_tables_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first moment on. Spark's own bar counts as no table; outside of a run it has a line of its own."""
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    with console.progress(2) as update:
        with console.starting():
            time.sleep(0.25)
        update("student", "read", 0.2)
        update("student", "done", 1.0)
        time.sleep(0.25)
    for words in ("0 of 2 tables", "Spark", "starting", "1 of 2 tables, about "):
        assert words in shown.getvalue()
    shown.truncate(0)
    with console.starting():
        time.sleep(0.25)
    assert "Starting Spark" in shown.getvalue()


def test_a_pipe_gets_all_columns_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever its width would be."""
    console.statuses([BUSY])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "read strategy" in lines[0]


def test_failed_is_red_and_quarantine_yellow(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal with colours; what is well has none."""
    terminal = narrow(monkeypatch)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    console.reports([TableReport("t", "failed", error="x"), TableReport("u", "idle")])
    console.statuses([STATUS])
    lines = printed(terminal)
    assert any("\x1b[1;31mfailed" in line for line in lines)
    assert any("\x1b[33m" in line and line.startswith("student") for line in lines)
    assert not any("\x1b[" in line for line in lines if line.startswith("u "))
    assert grid.size(1 << 20) == panels.size(1 << 20) == "1.0 MB"
    assert (grid.size(1_048_575), panels.size(999_950)) == ("1.0 MB", "976.5 KB"), "no number of a unit reaches the next one"


def test_rows_that_do_not_fit_a_terminal_stand_below_each_other(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A column a line, nothing folded; in a pipe a row stays a line, however long it is."""
    row = json.dumps({"id": 7, "text": "x" * 300, "at": "2026-11-20T07:12:00.117395Z"}, separators=(",", ":"))
    grid.rows_as_text(["id", "text", "at"], [row])
    assert capsys.readouterr().out.splitlines() == [f"id  text{' ' * 296}  at", f"7   {'x' * 300}  2026-11-20T07:12:00.117395Z"]
    terminal = narrow(monkeypatch)
    grid.rows_as_text(["id", "text", "at"], [row, row])
    columns = ["id    7", "text  " + "x" * 300, "at    2026-11-20T07:12:00.117395Z"]
    assert printed(terminal) == ["-- row 1", *columns, "-- row 2", *columns]


EVIL = "a\x1b[2J\x9b1m\x07\u202egnp\u2066\u2028z\x7f\ttab\nnext\r\ud800"
"""What a terminal obeys, what hides or moves text, and half a character."""
SEEN = "a\\x1b[2J\\x9b1m\\x07\\u202egnp\\u2066\\u2028z\\x7f"


@pytest.mark.parametrize("terminal", [True, False])
def test_no_value_and_no_name_of_a_file_reaches_a_terminal_as_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: bool
) -> None:
    """In tables, messages and errors; in text and CSV of a query, where tabs and line ends are data. JSON is exact."""
    shown = narrow(monkeypatch) if terminal else None
    row = json.dumps({f"n{EVIL}": EVIL}, separators=(",", ":"))
    outputs = (
        lambda: grid.table(["x"], [[EVIL]]),
        lambda: grid.rows_as_text([f"n{EVIL}"], [row] * 2),
        lambda: grid.objects_as_text([row]),
        lambda: grid.print_message(EVIL),
        lambda: grid.console().print(EVIL, soft_wrap=True),
        lambda: console.reports([TableReport("t", "failed", error=EVIL, notes=(EVIL,))]),
        lambda: grid.rows_as_csv([f"n{EVIL}"], [row]),
    )
    for number, output in enumerate(outputs):
        output()
        captured = capsys.readouterr()
        text = captured.out + captured.err + (shown.getvalue() if shown else "")
        assert SEEN in text.replace("\n", ""), number
        assert not set(text) & set("\x1b\x9b\x07\u202e\u2066\u2028\x7f\ud800"), number
        if shown:
            printed(shown)
    grid.rows_as_csv(["n"], ['{"n":"a\\u001b\\tb\\nc"}'])
    grid.rows_as_json([row])
    text = shown.getvalue() if shown else capsys.readouterr().out
    assert text.startswith('n\n"a\\x1b\tb\nc"\n[')
    assert json.loads(text[text.index("[") :]) == [{f"n{EVIL}": EVIL}]


def test_json_of_rows_is_a_document_or_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """A statement that fails at its first row leaves no half of one."""
    with pytest.raises(ZeroDivisionError):
        grid.rows_as_json(str(1 // 0) for _ in range(1))
    grid.rows_as_json([])
    assert capsys.readouterr().out == "[]\n"


def test_half_a_character_is_escaped_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    """As a record may have it in the name of a column. UTF-8 has no bytes for it."""
    console.as_json({"a\ud83d": "\\ é \udc00"})
    written = capsys.readouterr().out.encode().decode()
    assert json.loads(written) == {"a\ud83d": "\\ é \udc00"}
