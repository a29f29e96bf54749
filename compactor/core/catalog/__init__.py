"""Objects of the Hive catalog as values (`ddl`), as SQL (`ddl_text`, `dialect`), and how a Snapshot becomes them: the main view (`views`), the base
alone (`base_views`), the live view (`live`), the history (`history_views`), and the change feed (`feed`).
"""
