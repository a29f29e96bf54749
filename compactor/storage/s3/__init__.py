"""The `Storage` port on S3 and compatible stores: the storage itself, one request with its retries (`client.py`), the move by copy (`move.py`) and
the texts of final errors (`refusals.py`)."""
