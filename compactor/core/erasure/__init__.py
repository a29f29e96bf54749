"""Erasing keys for good: keyed hashes of them (`keys`)."""
