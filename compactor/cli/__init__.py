"""The command line. A command parses its options, makes one call to the App, and prints the answer; it makes no decisions. `main` registers the
commands, `options` has the options that several commands share, `console` prints tables, JSON and progress; every other module is a group of
commands."""
