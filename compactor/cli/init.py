"""`compactor init` writes a commented compactor.yaml from a registry or from landed files, `compactor package` the job for EMR."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from compactor.cli import console, grid, options
from compactor.cli.options import DEFAULT, ConfigFile, Output, OutputForm, Verbose, log_to_stderr, opened, option, write_file
from compactor.core.model.errors import ConfigError, Refused
from compactor.core.results.phrases import counted
from compactor.core.settings import command_line as declared
from compactor.core.sources import proposal

_REGISTRY_KEYS = ("context", "token_env")

Top = Annotated[str | None, typer.Option("--from", metavar="PATH", help="Folder, or s3://bucket/prefix, with landed files.")]
RegistryAt = Annotated[str | None, typer.Option("--registry", metavar="URL", help="Schema registry: its address, or a folder of .avsc files.")]
RegistryKeys = Annotated[
    list[str] | None,
    typer.Option("--registry-key", metavar="NAME=VALUE", help=f"A key below `registry:`, also for this command: {', '.join(_REGISTRY_KEYS)}."),
]
Written = Annotated[Path, typer.Option("--config", "-c", metavar="PATH", help="File to write; - for standard output.", show_default=True)]
Template = Annotated[
    str, typer.Option("--increments", metavar="PATTERN", help="With --registry alone: where files land, with {table} or {topic} and strftime codes.")
]


def init(
    top: Top = None,
    registry: RegistryAt = None,
    registry_key: RegistryKeys = None,
    config: Written = DEFAULT,
    output: OutputForm = Output.text,
    warehouse: Annotated[str | None, typer.Option(metavar="PATH", help="Folder for the tables.", show_default=False)] = None,
    database: Annotated[str, typer.Option(metavar="NAME", help="Database of the views.")] = "default",
    increments: Template = proposal.STANDARD,
    hive: Annotated[bool, typer.Option("--hive", help="Write Parquet files that Hive 2 and 3 can read.")] = False,
    add: Annotated[bool, typer.Option("--add", help="Add tables to an existing compactor.yaml instead.")] = False,
    dry_run: Annotated[bool, option(declared.DRY_RUN, "With --add: show the tables, write nothing.")] = False,
) -> None:
    """Write a first compactor.yaml, or add tables to it.

    From a registry (--registry): a table for each topic, with the key of its -key subject. From files (--from): a table for each
    folder, or for each source table of a stream. With both, the files show folders, envelope and format, and the registry keys and
    schemas. What cannot be inferred is a commented line to complete. Starts no Spark, never overwrites a file.

    With --add: each folder of --from, or that fits `discover:`, and that no table takes becomes a table, in a file of its own in
    `discovered:`, if its source names the key. For the others it prints the line to write.

    \b
    Example:
      compactor init --registry http://localhost:8081 --registry-key token_env=TOKEN
      compactor init --from ./landing --warehouse ./warehouse --database school
      compactor init --from s3://lake/raw --registry http://localhost:8081 --config - | less
      compactor init --add --from ./landing/topics --dry-run
    """
    from compactor.app import init as app_init

    log_to_stderr()
    if dry_run and not add:
        raise typer.BadParameter("--dry-run goes with --add")
    if add:
        _add(config, top, dry_run, output)
        return
    if not top and not registry:
        raise typer.BadParameter("give --registry URL, --from PATH, or both")
    options = {name: value for name, _, value in (given.partition("=") for given in registry_key or ())}
    if unknown := options.keys() - {*_REGISTRY_KEYS}:
        raise typer.BadParameter(f"--registry-key: expected one of {', '.join(_REGISTRY_KEYS)}, found {min(unknown)}")
    to_stdout = str(config) == "-"
    if not to_stdout and config.exists():
        raise Refused(f"{config} exists and is not overwritten; give --config another file, or --config - to print it")
    base = os.getcwd() if to_stdout else str(config.absolute().parent)
    tables, home = app_init.propose(top, registry, warehouse, increments, options, base)
    text = proposal.text(tables, home, database, app_init.registry_keys(registry, options, base), hive)
    if not to_stdout:
        write_file(config, text)
    if output is Output.json:
        console.as_json({"file": None if to_stdout else str(config), **({"text": text} if to_stdout else {}), **tables.to_json()})
    elif to_stdout:
        sys.stdout.write(text)
    else:
        console.proposed(tables, str(config))


def _add(config: Path, top: str | None, dry_run: bool, output: Output) -> None:
    """Add the tables that are certain, and print them and what the others wait for."""
    with opened(config) as app:
        tables = app.add_tables(top, dry_run)
    if output is Output.json:
        rows = [{"folder": each.source, "table": each.name, "waits": each.waits or None} for each in tables]
        console.as_json({"tables": [{**row, "added": not dry_run and row["waits"] is None} for row in rows]})
        return
    for each in tables:
        grid.print_message(f"{each.source} waits: {each.waits}" if each.waits else f"table {each.name}: {each.evidence}")
    added = sum(not each.waits for each in tables)
    grid.print_message(f"{counted(added, 'table')} {'would be added' if dry_run else 'added'}, {counted(len(tables) - added, 'folder')} left")


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
    from compactor.app.packaging import mwaa as mwaa_files
    from compactor.app.packaging.job_zip import upload

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
