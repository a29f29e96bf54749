"""Answers of S3 to Spark that end among their headers: S3A takes a file for an empty one, or for one that ends there, and says nothing. And answers of
a store that has forgotten a file for a moment."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults_real.cut_answers import NAMES
from tests.oracle.sizes import FULL

pytestmark = [pytest.mark.engines, pytest.mark.spark]

REPOSITORY = Path(__file__).parents[2]
KINDS, REQUESTS = (("cut_head", "cut_length", "404 NotFound"), 100) if FULL else (("cut_length",), 3)


@pytest.mark.parametrize("name", NAMES if FULL else ["json", "avro"])
def test_no_answer_about_a_landed_file_can_lose_its_rows(tmp_path: Path, name: str) -> None:
    """For each HEAD and each GET: the run takes both files, or says that it will later and does; no row is missing, no file is blamed."""
    words = [str(tmp_path), name, ",".join(KINDS), "HEAD,GET", str(REQUESTS)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults_real.cut_answers", *words], capture_output=True, text=True, check=False, cwd=REPOSITORY, timeout=3000
    )
    assert done.returncode == 0, done.stdout + done.stderr
    cases = [json.loads(line) for line in done.stdout.splitlines()]
    for case in cases:
        assert case["outcomes"][0] in ("committed", "later"), case
        assert (case["outcomes"][1], case["shown"], case["quarantined"]) == ("committed", case["expected"], []), case
    # every file is looked for and fetched at least so often
    fired = {(case["kind"], case["method"], case["at"]) for case in cases if case["fired"]}
    assert fired >= {(kind, method, at) for kind in KINDS for method, times in (("HEAD", 3), ("GET", 2)) for at in range(1, times + 1)}
