"""What an ordinary `pip install` of compactor resolves to."""

from __future__ import annotations

import re
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
OTHERS = ("3.5.6", "3.5.8", "3.5.9", "4.0.0", "4.1.4")
"""Versions of PySpark that PyPI has."""


def test_an_ordinary_install_gets_the_pyspark_that_is_tested() -> None:
    """Spark fetches jars of its own version for Avro, Kafka and S3: another PySpark fetches other jars, or none."""
    text = (ROOT / "pyproject.toml").read_text()
    (line,) = re.findall(r'^    "(pyspark\b[^"]*)",', text, re.MULTILINE)
    (tested,) = re.findall(r"^pyspark==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    requirement = Requirement(line)
    assert requirement.specifier.contains(tested)
    assert [*requirement.specifier.filter(OTHERS)] == []
