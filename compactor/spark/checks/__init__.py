"""Checks. Of a version before readers see it: `audit` counts the rows that break the rules under `checks:`, and `view_check` has Spark analyse the
text of a view. Of a batch: `misfits` finds the record that a refused schema change comes from, `repeated_keys` notices a wrong key.
"""
