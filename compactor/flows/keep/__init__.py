"""What is kept and for how long: pins keep a version, vacuum deletes what no kept version needs, raw files are deleted past their retention."""
