"""Read tables with DuckDB, without a JVM and without a catalog: a Snapshot names the files, and the SQL of the views is that of `core/catalog`.

| module | holds |
|---|---|
| `store` | DuckDB's file system over a Storage, for S3 |
| `sources` | a Snapshot's files as SQL, in the declared types |
| `queries` | view, history, rows at a time, changes as SQL text |
| `rows` | rows as JSON texts, as `compactor sql` prints them |
| `exact` | whether a statement means the same in Spark |
| `sample` | the first records of landed files, for `init` and `check` |
| `session` | opens DuckDB with the settings that make its answers equal Spark's; the configured tables under their names, for SQL statements |
"""
