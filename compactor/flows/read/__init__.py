"""Verbs that change nothing: status, plan, log, verify, changes, what waits in quarantine, whether an hour has landed, the measures of a run."""
