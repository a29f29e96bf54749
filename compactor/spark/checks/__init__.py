"""Checks of a version before readers see it: `audit` counts the rows that break the rules under `checks:`, and `view_check` has Spark analyse the
text of a view.
"""
