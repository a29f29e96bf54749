"""Iceberg: the base of a table described as an Iceberg v2 table without delete files, as values (docs/design/iceberg.md).

`schema` gives columns their field ids, `manifests` lists data files with their bounds, and `metadata` decides what an export shows and makes the next
metadata file. Nothing here touches a store; `flows/publish/native.py` does.
"""
