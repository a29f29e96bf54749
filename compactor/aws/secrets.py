"""Read secrets that the configuration names by ARN, with the identity of this process. Nothing writes them anywhere."""

from __future__ import annotations

import functools

from compactor.aws.client import AwsClient
from compactor.core.model.errors import Refused
from compactor.core.settings.aws import ClientConfig


@functools.cache
def secret_text(arn: str, table: str) -> str:
    """Return the text of a secret in AWS Secrets Manager, asked for once in a process. Raises Refused and Unavailable."""
    what = f"table {table}: secret {arn}"
    final = "{host} refused {action}: grant secretsmanager:GetSecretValue on it, and kms:Decrypt on its key"
    client = AwsClient("secretsmanager", ClientConfig(arn.split(":")[3], operation_seconds=60.0), otherwise=final)
    answer = client.retry(what, "read it from AWS Secrets Manager", lambda: client.request("get_secret_value", what, SecretId=arn))
    if "SecretString" not in answer:
        raise Refused(f"{what}: expected a text, found bytes")
    return str(answer["SecretString"])
