"""Landing: which files are new and which folders no table takes (discover), Kafka topics as files (ingest), and what
tables a landing folder could hold (propose, for `init`).
"""
