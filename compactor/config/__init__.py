"""The configuration file. `settings` reads compactor.yaml and the environment; `keys` and `sections` define the keys, `values` and `compound`
parse single values, `rules` checks several keys together, `text` parses YAML with line numbers."""
