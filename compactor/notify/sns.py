"""Messages to an SNS topic: region from its ARN, credentials from the standard chain, the endpoint from AWS_ENDPOINT_URL_SNS or AWS_ENDPOINT_URL."""

from __future__ import annotations

import json

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from compactor.core.model.errors import Refused, Unavailable
from compactor.core.results.notice import Message

SUBJECT_CHARS_MAX = 100
MESSAGE_BYTES_MAX = 262_144
"""SNS's own bounds."""


def to_sns(arn: str, told: Message) -> None:
    """Publish the message as JSON. Raises Refused when SNS says no, Unavailable when it does not answer."""
    message = json.dumps(told.to_json())
    if len(message.encode()) > MESSAGE_BYTES_MAX:
        short = {name: [] if isinstance(value, list) else value for name, value in told.to_json().items()}
        message = json.dumps({**short, "text": told.text[:10_000]})
    try:
        client = boto3.session.Session().client("sns", region_name=arn.split(":")[3])
        client.publish(TopicArn=arn, Subject=f"compactor: {told.subject}"[:SUBJECT_CHARS_MAX], Message=message)
    except ClientError as error:
        said = error.response.get("Error", {})
        why = f"notify: {arn}: {said.get('Code', 'an error')}: {said.get('Message', '')}"
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        raise (Unavailable if status >= 500 or status == 429 else Refused)(why) from None
    except BotoCoreError as error:
        raise Unavailable(f"notify: {arn}: {error}") from None
