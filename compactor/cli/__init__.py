"""The command line. A command parses its options, calls the App or a flow of a table, and prints the answer; it makes no decisions. `main` registers
the commands, `options` has what they share, `console` prints tables, JSON and progress; every other module is a group of
commands."""
