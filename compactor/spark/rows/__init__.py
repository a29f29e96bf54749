"""Frames become Changes, and Changes become one row for each key.

`json_writers.py` and `survey.py` collect what the driver must know first: the types of JSON, Positions, invalid records. `batch_order.py` decides the
order columns, and whether the batch may follow its version. `conform.py` makes Changes in the table's columns. `keyless.py` gives tables without key
an identity. `reduce.py` has the rule that decides between events (whether a late one loses), and `resolution.py` applies it to a batch and the stored
rows, with what key changes carry along. `position.py` is the place of an event as a Spark struct. The rows go on to `tables/`.
"""
