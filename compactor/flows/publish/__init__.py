"""After the commit point: make the catalog show the newest Snapshot, move ingested files to the archive, notify people of schema changes.

All of it works from the stored Snapshot alone and may be repeated.
"""
