"""The `Storage` port on S3 and compatible stores: the storage itself, one request with its retries and the texts of final errors (`client.py`), and
the move by copy (`move.py`)."""
