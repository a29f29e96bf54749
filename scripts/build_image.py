"""Execute the steps of the Dockerfile in a folder, for machines without Docker: `python scripts/build_image.py FOLDER`.

The folder stands for the root of the file system: absolute paths of the image are rewritten to it. Base images are this machine: `python` in a RUN
step is the interpreter that runs this script. After the last step, the health check runs with the folder's environment. What this cannot show is
what only a container has: the base image's own packages, the user, and file permissions between them.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
OWN = ("/src", "/build", "/opt/compactor", "/etc/compactor", "/etc/passwd", "/var/lib/compactor")
"""Paths of the image that the steps create. Others, such as /usr/bin, are the machine's."""


@dataclass
class Image:
    """What the steps have made so far."""

    root: Path
    """The folder that stands for the root of the file system."""

    workdir: str = "/"
    """The working directory, as a path of the image."""

    environment: dict[str, str] = field(default_factory=dict)
    """ENV, with paths rewritten."""

    user: str = "root"
    """USER."""

    healthcheck: list[str] = field(default_factory=list)
    """Command of HEALTHCHECK."""

    entrypoint: list[str] = field(default_factory=list)
    """ENTRYPOINT."""

    def here(self, text: str) -> str:
        """Rewrite the image's own paths in a text."""
        return re.sub(rf"(?<![\w/.])(?:{'|'.join(OWN)})(?=[/\s:'\"]|$)", lambda found: f"{self.root}{found[0]}", text)

    def run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        """Run a command in the image's environment. Variables of this machine that reach a package index or a cache stay."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name.startswith(("PIP_", "UV_", "SSL_", "XDG_", "HTTP", "http", "NO_PROXY", "no_proxy"))
        }
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        home = {"HOME": os.environ.get("HOME", "/")}
        environment = {**kept, **home, "PATH": path, **self.environment}
        folder = Path(self.here(self.workdir))
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=1200)  # noqa: S603


def instructions(text: str) -> list[tuple[str, str]]:
    """Return (instruction, arguments) of a Dockerfile."""
    joined = re.sub(r"\\\n", " ", "\n".join(line for line in text.splitlines() if not line.startswith("#")))
    return [(words[0].upper(), words[1].strip()) for line in joined.splitlines() if len(words := line.split(None, 1)) == 2]


def step(image: Image, kind: str, argument: str) -> None:
    """Execute one instruction. Raises ValueError for one that is not known, RuntimeError for a RUN step that fails."""
    if kind == "FROM":
        image.workdir, image.user, image.environment = "/", "root", {}
    elif kind == "WORKDIR":
        image.workdir = argument
        Path(image.here(argument)).mkdir(parents=True, exist_ok=True)
    elif kind == "COPY":
        _copy(image, [word for word in argument.split() if not word.startswith("--")], "--from=" in argument)
    elif kind == "RUN":
        for path in ("etc", "opt", "var/lib"):
            (image.root / path).mkdir(parents=True, exist_ok=True)
        # only root can give files away
        command = image.here(argument) if os.geteuid() == 0 else image.here(argument.split("&& chown")[0])
        done = image.run(["sh", "-euc", command])
        if done.returncode:
            raise RuntimeError(f"RUN {argument}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    elif kind == "ENV":
        image.environment |= dict(word.split("=", 1) for word in shlex.split(image.here(argument.replace(":", " : ")).replace(" : ", ":")))
    elif kind == "USER":
        image.user = argument
    elif kind == "HEALTHCHECK":
        image.healthcheck = json.loads(argument[argument.index("[") :])
    elif kind == "ENTRYPOINT":
        image.entrypoint = json.loads(argument)
    elif kind != "CMD":
        raise ValueError(f"the Dockerfile has {kind}, which scripts/build_image.py does not know")


def _copy(image: Image, paths: list[str], between_stages: bool) -> None:
    """COPY. Stages share the folder, so a copy between them is there already."""
    *sources, target = paths
    if between_stages:
        if not Path(image.here(target)).exists():
            raise RuntimeError(f"COPY {target}: the stage before did not make it")
        return
    folder = Path(image.here(image.workdir), target)
    for source in sources:
        found = ROOT / source
        if found.is_dir():
            shutil.copytree(found, folder, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
        else:
            shutil.copy(found, folder)


def build(root: Path) -> Image:
    """Execute all steps of the Dockerfile in a folder."""
    image = Image(root.resolve())
    for kind, argument in instructions((ROOT / "Dockerfile").read_text(encoding="utf-8")):
        print(f"{kind} {argument}", flush=True)
        step(image, kind, argument)
    return image


if __name__ == "__main__":
    built = build(Path(sys.argv[1]))
    config = built.root / "etc/compactor/compactor.yaml"
    config.write_text("warehouse: /tmp/lake\ntables: {student: {key: [id]}}\n", encoding="utf-8")
    checked = built.run(built.healthcheck)
    print(checked.stdout + checked.stderr)
    sys.exit(checked.returncode)
