"""Names taken once and for ever, in a DynamoDB table: for object stores that ignore `If-None-Match`.

An item is never changed and never deleted, and DynamoDB creates it under a condition. So the first candidate for a name is its owner for all time:
no lease, no clock, nothing that a paused process could wake up from too late. docs/s3.md tells how a commit is built on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from compactor.aws.client import AwsClient, Reach
from compactor.aws.retry import TAKEN, Answer, Passing, access_problem, api_name, code_of, words
from compactor.core.errors import Refused

KEY, VALUE = "path", "content"
"""The table's partition key (a string), and the attribute that holds the candidate."""


@dataclass(frozen=True)
class ClaimsSettings:
    """The DynamoDB table, and how it is reached."""

    table: str
    reach: Reach = field(default_factory=Reach)


class DynamoClaims:
    """The claims of one DynamoDB table. Threads and machines may share it."""

    def __init__(self, settings: ClaimsSettings) -> None:
        self._table = settings.table
        self._client = AwsClient("dynamodb", settings.reach, self._refusal)

    def first(self, name: str, candidate: str) -> str:
        """The first candidate that anybody ever offered for `name`; it is this one, or it was there before. May be repeated."""

        def attempt() -> str:
            item = {KEY: {"S": name}, VALUE: {"S": candidate}}
            condition = {"ConditionExpression": "attribute_not_exists(#p)", "ExpressionAttributeNames": {"#p": KEY}}
            try:
                self._client.ask("put_item", name, (TAKEN,), TableName=self._table, Item=item, **condition)
            except Answer:
                return self._owner(name)
            return candidate

        return self._client.persist(name, f"claim it in the DynamoDB table {self._table}", attempt)

    def _owner(self, name: str) -> str:
        answer = self._client.ask("get_item", name, TableName=self._table, Key={KEY: {"S": name}}, ConsistentRead=True)
        found = answer.get("Item", {}).get(VALUE, {}).get("S")
        if not found:
            raise Passing("the name is taken by an item that is not there")
        return str(found)

    def _refusal(self, error: Exception, what: str, operation: str, host: str) -> Refused:
        action = f"dynamodb:{api_name(operation)}"
        problem = access_problem(error, host)
        if problem:
            return Refused(f"{what}: {problem}")
        told = f"{host} refused {action}"
        if code_of(error) == "ResourceNotFoundException":
            told = f"there is no DynamoDB table {self._table} at {host}: create it as docs/s3.md says, or correct s3.commit_table and AWS_REGION"
        elif code_of(error) in ("AccessDeniedException", "403"):
            told = f"not allowed to {action} on the table {self._table}: grant it"
        return Refused(f"{what}: {told} ({words(error)})")
