"""`compactor ingest`: write Kafka topics into landing folders."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from compactor.cli import console, options
from compactor.cli.options import DEFAULT, WAIT_SECONDS, ConfigFile, LogForm, LogFormat, Output, OutputForm, Tables, Verbose, Wait


def ingest(
    tables: Tables = None,
    config: ConfigFile = DEFAULT,
    once: Annotated[bool, typer.Option("--once", help="Stop after one round.")] = False,
    every: Annotated[float, typer.Option(metavar="MINUTES", min=0.1, help="Pause between two rounds. Each round writes new files.")] = 10.0,
    max_records: Annotated[int, typer.Option(metavar="N", min=1, help="Maximum number of records in a file.")] = 500_000,
    skip_lost: Annotated[bool, typer.Option("--skip-lost", help="Continue after records that Kafka no longer has, instead of failing.")] = False,
    output: OutputForm = Output.text,
    wait: Wait = WAIT_SECONDS,
    verbose: Verbose = False,
    log_format: LogForm = LogFormat.text,
) -> None:
    """Write Kafka topics into landing folders.

    For sources without a sink. Writes the records of each table that has a `topic:` as Parquet files into the folder of their hour. Set the
    cluster with `kafka: host:9092`. The file names contain the offsets, so a restart neither loses nor repeats a record. Runs until it
    is stopped, unless --once is set.

    \b
    Example:
      compactor ingest --once
      compactor ingest student course --every 5 --config compactor.yaml
    """
    with options.opened(config, verbose, wait, log_format) as app:
        while True:
            topics = app.ingest(tables or (), max_records=max_records, skip_lost=skip_lost)
            if output is Output.json:
                console.as_json([vars(item) for item in topics])
            else:
                console.ingested(topics)
            if once:
                return
            time.sleep(every * 60)
