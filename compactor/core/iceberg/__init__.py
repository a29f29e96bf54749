"""Iceberg: the base of a table described as an Iceberg v2 table without delete files, and base and Delta as a v3 table with deletion vectors
(docs/design/iceberg.md), as values.

`schema` gives columns their field ids, `manifests` lists data files with their bounds, and `metadata` decides what an export shows and makes the next
metadata file. Nothing here touches a store; `flows/publish/native.py` does.
"""
