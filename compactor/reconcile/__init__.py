"""Sources that a table can be compared with. Each adapter opens connections that can only read, and answers by `core/reconcile/side`."""
