"""`compactor ingest`: write Kafka topics into landing folders."""

from __future__ import annotations

from typing import Annotated

import typer

from compactor.cli import console, options
from compactor.cli.options import Call, Every, Tables


@options.command()
def ingest(
    call: Call,
    tables: Tables = None,
    every: Every = None,
    max_records: Annotated[int, typer.Option("--max-records", metavar="N", min=1, help="Maximum number of records in a file.")] = 500_000,
    skip_lost: Annotated[bool, typer.Option("--skip-lost", help="Continue after records that Kafka no longer has, instead of failing.")] = False,
) -> None:
    """Write Kafka topics into landing folders.

    For sources without a sink. Writes the records of each table that has a `topic:` as Parquet files into the folder of their hour. Set the
    cluster with `kafka: host:9092`. The file names contain the offsets, so a restart neither loses nor repeats a record. Lands the records
    that are there and ends; with --every it continues, and each round writes new files.

    \b
    Example:
      compactor ingest
      compactor ingest student course --every 600 --config compactor.yaml
    """

    def land() -> None:
        topics = call.app.ingest(tables or (), max_records=max_records, skip_lost=skip_lost)
        call.answer([vars(item) for item in topics], lambda: console.ingested(topics))

    options.repeated(land, every)
