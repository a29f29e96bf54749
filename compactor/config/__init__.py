"""The configuration file. `settings` reads compactor.yaml and the environment; `keys` defines the sections and keys, `values`
parses single values, `rules` checks several keys together, `text` parses YAML with line numbers, `reference` describes all keys."""
