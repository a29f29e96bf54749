"""File formats, as far as compactor reads and writes them itself (a cluster has neither fastavro nor pyarrow), and checksums of files."""
