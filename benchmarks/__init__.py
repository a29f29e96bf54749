"""Measurements of the main job; `python -m benchmarks`."""
