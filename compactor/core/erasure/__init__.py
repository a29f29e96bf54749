"""Erasing keys for good: keyed hashes of them (`keys`), and what an erase did (`report`)."""
