"""Landing: which files are new (discover), Kafka topics as files (ingest), and what tables a landing folder could hold (propose, for `init`)."""
