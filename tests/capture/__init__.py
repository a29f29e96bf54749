"""A captured change stream with its ground truth, and what tests need to land it, configure it and compare with it."""
