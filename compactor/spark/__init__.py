"""The Spark adapter: everything that needs a Spark session.

`engine.py` implements the Engine port of `compactor/ports.py`. Data walks through the packages in this order:

    input/     landed files            → raw frames   (one DataFrame for each format and schema)
    decode/    raw frames              → frames       (envelope removed: operation, order, row images)
    rows/      frames                  → Changes      (the table's columns) → states → one row for each key
    tables/    states                 ⇄  Parquet      (base and Delta files, the change feed)
    history/   the same Changes        → versions     (`history: true`)

`reading.py` runs the first half (files to Changes), `rows/resolution.py` the second (Changes and stored rows to one row for each key).
`full_loads.py` compares complete copies of a table on the way, and makes Changes of the differences. `columns.py` names the internal columns of all
these DataFrames, and `keys.py` and `sql.py` build SQL. `consistency.py` checks that Spark reads the files that were listed. `failures.py` separates
environment errors from errors in the data. `session.py` opens the session, with the Java that `java.py` finds.
"""
