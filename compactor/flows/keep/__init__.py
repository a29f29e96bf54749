"""What is kept and for how long: pins keep a version, vacuum deletes what no kept version needs, discard deletes raw files past their retention."""
