"""Landed files become raw frames: one DataFrame for each format and schema, with the place of every record and its text or struct.

`inputs.py` holds the files of a batch, unpacks what Hadoop cannot, and decides which cannot be read. `files.py` opens Parquet, Avro and JSON,
`csv_files.py` CSV, whose values `csv_types.py` gives types. `kafka.py` takes the values out of whole Kafka records, also those in Confluent's wire
format. Raw frames go on to `decode/`. `topics.py` is apart from this way: it reads Kafka for `compactor ingest`.
"""
