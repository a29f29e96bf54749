"""Erasing keys for good: the erased keys of a table as keyed hashes (`erased`, `keys`), and what an erase did and found (`report`)."""
