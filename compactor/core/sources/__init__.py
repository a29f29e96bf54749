"""What sources look like and where their files land: `envelopes` (how rows are wrapped), `increment` (landed folders), `kafka_files` and `full_loads`
(special kinds of files), `postgres` (type names), `quarantine` (invalid input), `watermark` and
`whole_hours` (which hours are whole), and the inference of settings from samples for `compactor init`
(`path_inference`, `source_profile`, `proposal`).
"""
