"""What Spark's JVM does for us that PySpark has no public way to: `private` (of Spark itself) and `hadoop` (files, codecs, footers)."""
