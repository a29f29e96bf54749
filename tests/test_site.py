"""The site in a browser: `make site` builds it strictly; here its pages fit a phone and load nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parts.browser import ask, framed, picture

pytestmark = [pytest.mark.engines]

ROOT = Path(__file__).parents[1]

PICTURES = {
    "site.png": ("index.html", 1280, 1000, False),
    "site-dark.png": ("start.html", 1280, 1000, True),
    "site-phone.png": ("index.html", 390, 1250, False),
}
"""Picture in docs/images → (page, width, height, dark)."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make site` does."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=True, timeout=300)
    return folder


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    """Scripts, styles, fonts and pictures are files of the site."""
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    foreign = {
        f"{page.relative_to(site)}: {address}"
        for page in pages
        for tag in re.findall(r"<(?:script|img|link|iframe)\b[^>]*>", page.read_text(encoding="utf-8"))
        for address in re.findall(r'\b(?:src|href)="(https?://[^"]+)"', tag)
    }
    assert foreign == set()


@pytest.mark.parametrize("page", ["index.html", "start.html", "readers.html", "performance.html", "errors.html"])
def test_pages_fit_a_phone(site: Path, page: str) -> None:
    """Tables and code are scrolled by themselves; the page is not wider than the screen."""
    width, console = ask(site, page, 390, "page.documentElement.scrollWidth")
    assert (width, console) == (390, [])


@pytest.mark.parametrize("drawing", sorted(path.name for path in (ROOT / "docs/images").glob("*.svg")))
def test_texts_of_a_drawing_fit(tmp_path: Path, drawing: str) -> None:
    """Into the drawing, and into the box in which they begin."""
    (tmp_path / "drawing.html").write_text((ROOT / "docs/images" / drawing).read_text(encoding="utf-8"), encoding="utf-8")
    script = """(() => {
        const boxes = [...page.querySelectorAll('svg rect')].map(each => each.getBBox());
        const inside = (box, x, y) => x >= box.x && x <= box.x + box.width && y >= box.y && y <= box.y + box.height;
        const all = page.querySelector('svg').viewBox.baseVal;
        return [...page.querySelectorAll('svg text')].filter(each => {
            const text = each.getBBox(), end = text.x + text.width, middle = text.y + text.height / 2;
            const around = boxes.filter(box => inside(box, text.x + text.width / 2, middle));
            return [all, ...around].some(box => text.x < box.x || end > box.x + box.width);
        }).map(each => each.textContent);
    })()"""
    assert ask(tmp_path, "drawing.html", 1280, script) == ([], [])


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_of_the_site(site: Path, tmp_path: Path, name: str) -> None:
    """`COMPACTOR_PICTURES=docs/images` writes those of the documents again."""
    page, width, height, dark = PICTURES[name]
    script = "page.body.setAttribute('data-md-color-scheme', 'slate');" if dark else ""
    target = Path(os.environ.get("COMPACTOR_PICTURES", tmp_path)).absolute() / name
    picture(target, framed(site, page, width, height, script), width, height)
    assert 10_000 < target.stat().st_size < 400_000
    assert (ROOT / "docs/images" / name).exists(), "CONTRIBUTING shows it"
