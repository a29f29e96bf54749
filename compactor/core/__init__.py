"""The decisions of compactor as pure functions over immutable values. Nothing in here reads a file, a clock or the network.

`model` has the vocabulary of a table, `sources` what lands, `schema` how columns change, `planning` what to do next, `catalog` what readers see,
`results` what the flows return, and `settings` what does not belong to one table.
"""
