"""Pages in a headless Chromium: in a frame of a width, with a script of a test."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any


def chromium(*arguments: str) -> str:
    """Run Chromium without a window and return what it prints."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    assert program is not None, "Chromium is needed: apt-get install chromium"
    command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--allow-file-access-from-files", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout + done.stderr


def framed(folder: Path, page: str, width: int, height: int, script: str = "") -> str:
    """Write a page that shows `page` of the folder in a frame of a width, and runs a script in it. Chromium's own windows are never narrow."""
    frame = f'<iframe style="border:0;width:{width}px;height:{height}px" src="{page}"></iframe>'
    run = f"<script>const frame=document.querySelector('iframe');frame.onload=()=>{{const page=frame.contentDocument;{script}}}</script>"
    (folder / "frame.html").write_text(f'<!doctype html><body style="margin:0;background:#d5d8dd">{frame}<p id="result"></p>{run}', encoding="utf-8")
    return (folder / "frame.html").as_uri()


def ask(folder: Path, page: str, width: int, script: str) -> tuple[Any, list[str]]:
    """Return what a JavaScript expression (of `page`, the document) gives, and the lines of the console."""
    written = f"document.getElementById('result').textContent = JSON.stringify({script});"
    output = chromium("--enable-logging=stderr", "--dump-dom", framed(folder, page, width, 900, written))
    found = re.search(r'<p id="result">(.*?)</p>', output)
    assert found is not None, output[-2000:]
    assert found[1], output[-2000:]
    return json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")), [
        line for line in output.splitlines() if "CONSOLE" in line
    ]


def picture(target: Path, address: str, width: int, height: int) -> None:
    """Take a screenshot of a framed page, when its transitions are over."""
    target.parent.mkdir(parents=True, exist_ok=True)
    chromium("--virtual-time-budget=5000", f"--screenshot={target}", f"--window-size={max(width, 500)},{height}", address)
    assert target.read_bytes().startswith(b"\x89PNG")
