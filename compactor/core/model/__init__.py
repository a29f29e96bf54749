"""The vocabulary of a table as immutable values: its declaration (`spec`, `policy`), its committed versions (`snapshot`, `inputs`, `history`,
`schema`, `edit`), the envelope of its source (`envelopes`), the order of its events (`position`), its paths (`layout`), and the plain types below
them (`types`, `names`, `times`, `files`, `errors`). Nothing here reads or writes anything.
"""
