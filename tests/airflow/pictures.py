"""Pictures of Airflow's UI for the documentation: `COMPACTOR_PICTURES=docs/images make test-airflow-server` takes them again (needs Chromium).

Those in `docs/images` have 128 colours (`quantize` of Pillow), which is a quarter of the size.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

FOLDER = os.environ.get("COMPACTOR_PICTURES")
PATIENCE = 60.0
"""Seconds for the browser to start, and for each of its answers."""


class Page:
    """A page of a browser, over its debugging protocol."""

    def __init__(self, port: int) -> None:
        from websockets.sync.client import connect

        request = urllib.request.Request(f"http://127.0.0.1:{port}/json/new?about:blank", method="PUT")
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            self._socket = connect(json.loads(answer.read())["webSocketDebuggerUrl"], max_size=None)
        self._number = 0

    def call(self, method: str, **params: Any) -> Any:
        """A method's answer; events are left out."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            told = json.loads(self._socket.recv(timeout=PATIENCE))
            if told.get("id") == self._number:
                assert "error" not in told, told
                return told["result"]

    def see(self, word: str) -> None:
        """Wait until the page has this word."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if word in self.call("Runtime.evaluate", expression="document.body.innerText", returnByValue=True)["result"].get("value", ""):
                return
            time.sleep(0.5)
        raise AssertionError(f"the page has no {word!r}")


def picture(url: str, name: str, *, sees: str, before: str = "", after: str = "", size: tuple[int, int] = (1200, 600)) -> None:
    """Keep what a person sees at an address, if pictures are wanted, as soon as the page has the word `sees`.

    The script `before` runs before the page's own scripts, `after` when the page is complete.
    """
    if FOLDER is None:
        return
    browser = shutil.which("chromium")
    assert browser is not None, "COMPACTOR_PICTURES needs Chromium"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-lcd-text",
            "--hide-scrollbars",
            f"--user-data-dir={profile}",
            "--remote-debugging-port=0",
        ]
        running = subprocess.Popen([browser, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            end, found = time.monotonic() + PATIENCE, Path(profile) / "DevToolsActivePort"
            while not (found.exists() and found.read_text().strip()):
                assert time.monotonic() < end, "Chromium did not start"
                time.sleep(0.2)
            page = Page(int(found.read_text().split()[0]))
            page.call("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1, mobile=False)
            page.call("Page.enable")
            page.call("Page.addScriptToEvaluateOnNewDocument", source=before)
            page.call("Page.navigate", url=url)
            page.see(sees)
            time.sleep(3.0)
            page.call("Runtime.evaluate", expression=after)
            data = page.call("Page.captureScreenshot", format="png")["data"]
        finally:
            running.kill()
            running.wait()
    (Path(FOLDER) / f"{name}.png").write_bytes(base64.b64decode(data))
