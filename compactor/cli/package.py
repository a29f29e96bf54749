"""`compactor package`: write the job for EMR, once for each version of compactor."""

from __future__ import annotations

from typing import Annotated

import typer

from compactor.cli import console, options
from compactor.cli.options import DEFAULT, ConfigFile, Output, OutputForm, Verbose
from compactor.core.model.errors import ConfigError


def package(
    folder: Annotated[
        str | None, typer.Argument(metavar="FOLDER", help="A folder, or s3://bucket/folder (default: `emr: {job: ..}`).", show_default=False)
    ] = None,
    mwaa: Annotated[bool, typer.Option("--mwaa", help="Write what an Amazon MWAA environment installs, instead of the job.")] = False,
    config: ConfigFile = DEFAULT,
    output: OutputForm = Output.text,
    verbose: Verbose = False,
) -> None:
    """Write the job for EMR.

    Writes compactor.zip, which contains the modules that run on a cluster, and main.py, which starts them. The same version writes
    the same bytes. Fails if FOLDER has another package: use a new folder for each version, and set it in `emr: {job: ..}`. Reads
    the configuration only for the folder and for access to S3.

    With --mwaa, writes requirements.txt, plugins.zip and startup.sh: the package without PySpark, for an environment that runs Spark
    on EMR. The Terraform module uploads the folder (`mwaa = {package = ..}`).

    \b
    Example:
      compactor package build/job
      compactor package --mwaa build/mwaa
      compactor package s3://compactor-code/jobs/0.1.0
      compactor package --config compactor.yaml --output json
    """
    from compactor.app import mwaa as mwaa_files
    from compactor.app.package import upload

    if mwaa:
        if folder is None:
            raise typer.BadParameter("give the folder that the files go to", param_hint="FOLDER")
        written = mwaa_files.upload(folder, config)
        console.as_json({"files": written}) if output is Output.json else print("\n".join(written))
        return
    if folder is None:
        with options.opened(config, verbose) as app:
            folder = app.settings.emr.job
        if folder is None:
            raise ConfigError(f"{config}: the folder of the job is not set; set `emr: {{job: s3://bucket/folder}}`, or give FOLDER")
    packed, paths = upload(folder, config)
    if output is Output.json:
        console.as_json({"digest": packed.digest, "files": paths, "modules": list(packed.modules)})
        return
    for path in paths:
        print(path)
    print(f"package {packed.digest}, {len(packed.modules)} modules, {sum(map(len, packed.files.values())):,} bytes")
