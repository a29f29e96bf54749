"""Targets for messages about tables: the log and a local program (`local.py`), an SNS topic (`sns.py`), an HTTP address (`webhook.py`),
in the forms of Slack, Teams and PagerDuty (`services.py`)."""
