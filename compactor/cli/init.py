"""`compactor init`: write a commented compactor.yaml from a registry or from landed files."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from compactor.cli import console, grid
from compactor.cli.options import DEFAULT, Output, OutputForm, log_to_stderr, opened, option, write_file
from compactor.core.model.errors import Refused
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
