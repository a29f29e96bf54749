"""Erasing keys for good: the erased keys of a table as keyed hashes (`erased`, `keys`), raw files without some of their records (`raw_records`,
`avro_records`), and what an erase did and found (`report`).
"""
