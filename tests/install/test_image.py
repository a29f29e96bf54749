"""The Dockerfile: its steps, executed in a folder where there is no Docker, and what they make."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import build_image
from scripts.build_image import Image, build, instructions, step

STEPS = instructions((build_image.ROOT / "Dockerfile").read_text(encoding="utf-8"))


def test_it_does_not_run_as_root_and_has_a_health_check() -> None:
    """The last USER counts, and comes before the entry point."""
    kinds = [kind for kind, _ in STEPS]
    users = [argument for kind, argument in STEPS if kind == "USER"]
    assert users == ["10001:10001"]
    assert {"HEALTHCHECK", "ENTRYPOINT", "CMD"} <= set(kinds)
    assert kinds.index("USER") > max(number for number, kind in enumerate(kinds) if kind in ("RUN", "COPY"))


def test_everything_that_is_copied_is_in_the_context() -> None:
    """.dockerignore leaves everything out but what it names."""
    named = {line[1:] for line in (build_image.ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line.startswith("!")}
    copied = {word for kind, argument in STEPS if kind == "COPY" and "--from" not in argument for word in argument.split()[:-1]}
    assert copied == named
    assert all((build_image.ROOT / name).exists() for name in copied)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("python -m venv /build && /build/bin/pip", "python -m venv {}/build && {}/build/bin/pip"),
        ("'x:/var/lib/compactor:/usr/sbin/nologin' >> /etc/passwd", "'x:{}/var/lib/compactor:/usr/sbin/nologin' >> {}/etc/passwd"),
        ("/usr/local/bin:/usr/bin", "/usr/local/bin:/usr/bin"),
        ("/etc/compactors/srcs", "/etc/compactors/srcs"),
    ],
)
def test_paths_of_the_image_are_rewritten(tmp_path: Path, text: str, expected: str) -> None:
    """Also behind a colon; never a path of the machine's."""
    assert Image(tmp_path).here(text) == expected.replace("{}", str(tmp_path))


def test_an_instruction_that_is_not_executed_is_refused(tmp_path: Path) -> None:
    """Or the test below would pass over it."""
    with pytest.raises(ValueError, match="the Dockerfile has ADD"):
        step(Image(tmp_path), "ADD", "x y")
    with pytest.raises(RuntimeError, match="RUN false: exit code 1"):
        step(Image(tmp_path), "RUN", "false")


@pytest.mark.slow
def test_its_steps_make_an_environment_that_runs_the_main_job(tmp_path: Path) -> None:
    """Every step; then the health check with and without a configuration, and a run with the image's own Java and the classes that it wrote."""
    image = build(tmp_path / "image")
    assert (image.root / "etc/passwd").read_text(encoding="utf-8").startswith("compactor:x:10001:")
    assert image.environment["PATH"].split(":")[0] == f"{image.root}/opt/compactor/bin"
    assert image.run(image.healthcheck).returncode == 1, "there is no configuration yet"
    landing = tmp_path / "lake/t/incremental/increment_2024030500"
    landing.mkdir(parents=True)
    (landing / "a.json").write_text('{"id": 1, "name": "one"}\n', encoding="utf-8")
    (image.root / "etc/compactor/compactor.yaml").write_text(
        f"warehouse: {tmp_path}/lake\ntables: {{t: {{key: [id], envelope: flat, order_by: [id]}}}}\n", encoding="utf-8"
    )
    loaded = tmp_path / "classes.log"
    image.environment["SPARK_SUBMIT_OPTS"] = f"-Xlog:class+load:file={loaded}"
    done = image.run([*image.entrypoint, "run", "--output", "json"])
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["outcome"] == "committed"
    assert re.search(r"org\.apache\.spark\.sql\.SparkSession source: shared objects file \(top\)", loaded.read_text(encoding="utf-8"))
    checked = image.run(image.healthcheck)
    assert (checked.returncode, json.loads(checked.stdout)[0]["version"]) == (0, 1), checked.stderr


def test_the_script_says_what_it_needs() -> None:
    """Without a folder it fails at once."""
    done = subprocess.run([sys.executable, str(build_image.__file__)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
