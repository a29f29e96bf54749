"""Schemas of sources and tables: reading them (`avro`, `writer`), comparing them (`nested_types`, `compatibility`),
deciding what a table does about a change (`policy`, `evolution`, `adoption`), and reporting changes between versions (`schema_history`).
"""
