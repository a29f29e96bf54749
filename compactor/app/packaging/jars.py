"""The jars for S3 and Avro in the image: fetched once, while it is built, and compared with their SHA-256: `python -m compactor.app.packaging.jars`.

Beside those of PySpark they are found there, so no run fetches them (`packages.coordinates`).
"""

from __future__ import annotations

import hashlib
import os
import re
import urllib.request
from pathlib import Path

from compactor.app.spark import REPOSITORY, jars_folder
from compactor.core.model.errors import Refused

JARS = {
    "com.amazonaws:aws-java-sdk-bundle:1.12.262": "873fe7cf495126619997bec21c44de5d992544aea7e632fdc77adb1a0915bae5",
    "org.apache.hadoop:hadoop-aws:3.3.4": "53f9ae03c681a30a50aa17524bd9790ab596b28481858e54efd989a826ed3a4a",
    "org.apache.spark:spark-avro_2.12:3.5.7": "b0660bc224cbd1eb3ae144001c1328863060e64f1834dd7bbadc1ddbf09d2b15",
    "org.apache.spark:spark-hadoop-cloud_2.12:3.5.7": "2b70d491d61c736cd9721e61936e802cb9150048d50eeca3ee1d14fc21011027",
    "org.tukaani:xz:1.9": "211b306cfc44f8f96df3a0a3ddaf75ba8c5289eed77d60d72f889bb855f535e5",
    "org.wildfly.openssl:wildfly-openssl:1.0.7.Final": "9f7058778978ec2ad90c7224401a4b0013d93e0dd3fa0f72b25244ffa3507ca8",
}
"""Maven coordinates → SHA-256, for the PySpark in pyproject.toml: what Spark's own resolver takes for its packages."""

_SECONDS = 600


def repository() -> str:
    """Return the address of the Maven repository: what the variable names, else the one in Spark's settings."""
    from compactor.spark import session

    settings = (Path(session.__file__).parent / "ivysettings.xml").read_text(encoding="utf-8")
    addresses: list[str] = re.findall(r'name="compactor.repository" value="([^"]+)"', settings)
    return os.environ.get(REPOSITORY, addresses[0]).rstrip("/")


def fetch(folder: Path, address: str) -> None:
    """Write the jars that are missing into a folder. Raises Refused for one with another SHA-256, and leaves nothing of it."""
    for name, expected in JARS.items():
        group, artifact, version = name.split(":")
        target = folder / f"{artifact}-{version}.jar"
        if not target.exists():
            url = "/".join([address, *group.split("."), artifact, version, target.name])
            with urllib.request.urlopen(url, timeout=_SECONDS) as answer:  # noqa: S310 - the address is the operator's
                target.write_bytes(answer.read())
        digest = hashlib.sha256(target.read_bytes()).hexdigest()
        if digest != expected:
            target.unlink()
            raise Refused(
                f"{name} from {address}: expected SHA-256 {expected}, found {digest}. It was deleted. Build again, or ask who runs that repository."
            )


if __name__ == "__main__":
    fetch(jars_folder(), repository())
