"""`compactor ingest`: Kafka topics into landing folders."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from compactor.cli import console, options
from compactor.cli.options import DEFAULT, WAIT_SECONDS, ConfigFile, Output, OutputForm, Tables, Verbose, Wait


def ingest(
    tables: Tables = None,
    config: ConfigFile = DEFAULT,
    once: Annotated[bool, typer.Option("--once", help="End when all that was there is landed.")] = False,
    every: Annotated[float, typer.Option(metavar="MINUTES", min=0.1, help="Pause between rounds: how often files are closed.")] = 10.0,
    max_records: Annotated[int, typer.Option(metavar="N", min=1, help="Most records in a file.")] = 500_000,
    skip_lost: Annotated[bool, typer.Option("--skip-lost", help="Go on behind records that Kafka has not kept.")] = False,
    output: OutputForm = Output.text,
    wait: Wait = WAIT_SECONDS,
    verbose: Verbose = False,
) -> None:
    """Land the tables' Kafka topics.

    For those who have no sink. A table with `topic:` gets its records, whole, as Parquet in the folder of their hour; `kafka: {servers: ..}`
    says where they come from. The files' names hold the offsets: a restart neither loses nor doubles a record. Without --once it goes on until
    it is stopped.

    \b
    Example:
      compactor ingest --once
      compactor ingest student course --every 5 --config compactor.yaml
    """
    with options.opened(config, verbose, wait) as here:
        while True:
            found = here.ingest(tables or (), max_records=max_records, skip_lost=skip_lost)
            if output is Output.json:
                console.as_json([vars(item) for item in found])
            else:
                console.ingested(found)
            if once:
                return
            time.sleep(every * 60)
