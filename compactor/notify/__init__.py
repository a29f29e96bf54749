"""Targets for messages about tables: the log and a local program (`local.py`), an SNS topic (`sns.py`), an HTTP address and whatever Apprise knows
(`webhook.py`)."""
