"""Messages to an SNS topic. The region comes from the ARN, credentials from the standard chain, the endpoint from AWS_ENDPOINT_URL_SNS or
AWS_ENDPOINT_URL."""

from __future__ import annotations

import hashlib
import json

from compactor.aws.client import AwsClient
from compactor.core.results.notice import Message
from compactor.core.settings.aws import ClientConfig

SUBJECT_CHARS_MAX = 100
MESSAGE_BYTES_MAX = 262_144
"""Limits of SNS."""


def to_sns(arn: str, message: Message) -> None:
    """Publish the message as JSON. Raises Refused if SNS rejects it, Unavailable if SNS does not respond."""
    body = json.dumps(message.to_json())
    if len(body.encode()) > MESSAGE_BYTES_MAX:
        short = {name: [] if isinstance(value, list) else value for name, value in message.to_json().items()}
        body = json.dumps({**short, "text": message.text[:10_000]})
    # A FIFO topic delivers the messages of a table in order, and a message that is sent twice once.
    ordered = {"MessageGroupId": message.to_json()["table"], "MessageDeduplicationId": hashlib.sha256(body.encode()).hexdigest()}
    sent = {"TopicArn": arn, "Subject": f"compactor: {message.subject}"[:SUBJECT_CHARS_MAX], "Message": body}
    sent |= ordered if arn.endswith(".fifo") else {}
    client = AwsClient("sns", ClientConfig(arn.split(":")[3], operation_seconds=60.0))
    client.retry(f"notify: {arn}", "publish to it", lambda: client.request("publish", f"notify: {arn}", **sent))
