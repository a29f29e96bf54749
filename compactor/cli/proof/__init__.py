"""Commands that prove what a table holds, and that something is gone from it: `reconcile`, `publish`, `erase`."""
