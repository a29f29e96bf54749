"""Checks. Of a version before readers see it (`views`): rows that break the rules under `checks:`, and whether Spark understands the text of a view.
Of a batch: `misfits` finds the value that a refused schema change comes from, `repeated_keys` notices a wrong key.
"""
