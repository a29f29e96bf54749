"""compactor beside other systems: the same landed files, one process for each system, final tables compared. `python -m benchmarks.peers`."""
