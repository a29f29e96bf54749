"""Messages to an SNS topic. The region comes from the ARN, credentials from the standard chain, the endpoint from AWS_ENDPOINT_URL_SNS or
AWS_ENDPOINT_URL."""

from __future__ import annotations

import json

from botocore.exceptions import BotoCoreError, ClientError

from compactor.aws import client as aws_client
from compactor.core.model.errors import Refused, Unavailable
from compactor.core.results.notice import Message

SUBJECT_CHARS_MAX = 100
MESSAGE_BYTES_MAX = 262_144
"""Limits of SNS."""


def to_sns(arn: str, message: Message) -> None:
    """Publish the message as JSON. Raises Refused if SNS rejects it, Unavailable if SNS does not respond."""
    body = json.dumps(message.to_json())
    if len(body.encode()) > MESSAGE_BYTES_MAX:
        short = {name: [] if isinstance(value, list) else value for name, value in message.to_json().items()}
        body = json.dumps({**short, "text": message.text[:10_000]})
    try:
        client = aws_client.make_session().client("sns", region_name=arn.split(":")[3])
        client.publish(TopicArn=arn, Subject=f"compactor: {message.subject}"[:SUBJECT_CHARS_MAX], Message=body)
    except ClientError as error:
        detail = error.response.get("Error", {})
        why = f"notify: {arn}: {detail.get('Code', 'an error')}: {detail.get('Message', '')}"
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        raise (Unavailable if status >= 500 or status == 429 else Refused)(why) from None
    except BotoCoreError as error:
        raise Unavailable(f"notify: {arn}: {error}") from None
