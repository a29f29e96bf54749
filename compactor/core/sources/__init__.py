"""What sources look like and where their files land: `flat_rows`, `records` and `value_forms` (what records hold), `increment` (landed folders),
`kafka_files` and `full_loads` (special kinds of files), `shared_stream` (streams of several tables), `postgres` (type names), `quarantine` (invalid
input), `whole_hours` (which hours are whole), and the inference of settings from samples (`path_inference`, `key_inference`, `source_profile`,
`proposal`).
"""
