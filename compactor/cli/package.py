"""`compactor package`: what is put onto a cluster, once for each version of the tool."""

from __future__ import annotations

from typing import Annotated

import typer

from compactor.cli import console, options
from compactor.cli.options import DEFAULT, ConfigFile, Output, OutputForm, Verbose
from compactor.core.model.errors import ConfigError


def package(
    place: Annotated[
        str | None, typer.Argument(metavar="PLACE", help="A directory or s3://bucket/folder; default what `emr: {job: ..}` says.", show_default=False)
    ] = None,
    config: ConfigFile = DEFAULT,
    output: OutputForm = Output.text,
    verbose: Verbose = False,
) -> None:
    """Write the job for EMR.

    compactor.zip, with what runs on a cluster and nothing else, and main.py, which starts it. The same version writes the same
    bytes. A place that holds another package is refused: give each version a folder, and say it in `emr: {job: ..}`. Needs the
    configuration only to know the place and how S3 is reached.

    \b
    Example:
      compactor package build/job
      compactor package s3://compactor-code/jobs/0.1.0
      compactor package --config compactor.yaml --output json
    """
    from compactor.app.package import deliver_to

    if place is None:
        with options.opened(config, verbose) as here:
            place = here.settings.emr.job
        if place is None:
            raise ConfigError(f"{config}: nothing says where the job is put; say `emr: {{job: s3://bucket/folder}}`, or PLACE")
    packed, paths = deliver_to(place, config)
    if output is Output.json:
        console.as_json({"digest": packed.digest, "files": paths, "modules": list(packed.modules)})
        return
    for path in paths:
        print(path)
    print(f"package {packed.digest}, {len(packed.modules)} modules, {sum(map(len, packed.files.values())):,} bytes")
