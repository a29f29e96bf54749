"""Comparing a table with its source: the text that both sides write for a value (`canonical`, `dialects`), key ranges and the queries of one
side (`side`), positions (`reached`), and the report. No connection is opened here."""
