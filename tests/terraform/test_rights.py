"""Least privilege: the lists of actions in iam.tf hold real actions, each is granted, none by a wildcard, none that destroys what it need not."""

from __future__ import annotations

import re

import botocore.session
import pytest

from tests.terraform import rights
from tests.terraform.module import MODULE, locals_of, strings

ROLES = ("job", "caller")
BOTOCORE = {"elasticmapreduce": "emr"}


@pytest.mark.parametrize("role", ROLES)
def test_every_action_is_a_call_that_exists(role: str) -> None:
    """A misspelt action would be accepted by Terraform and by IAM, and missing on the first production day."""
    session = botocore.session.get_session()
    known = {"iam:PassRole", *(action for each in rights.S3_RIGHTS.values() for action in each)}
    for action in rights.actions(role):
        service, _, operation = action.partition(":")
        if action not in known:
            assert operation in session.get_service_model(BOTOCORE.get(service, service)).operation_names, action


@pytest.mark.parametrize("role", ROLES)
def test_every_list_is_granted_somewhere(role: str) -> None:
    """A list that no policy uses would look like a right and be none."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in MODULE.glob("*.tf"))
    assert [purpose for purpose in rights.given(role) if not re.search(rf"local\.{role}_actions\.{purpose}\b", text)] == []


@pytest.mark.parametrize("policy", ["job_policies", "caller_policy", "list_statements", "metric_statements"])
def test_policies_take_their_actions_from_the_lists_only(policy: str) -> None:
    """So that the lists are the whole truth."""
    written = {text for text in strings(locals_of(MODULE)[policy]) if re.fullmatch(r"[a-z0-9-]+:[A-Z*]\w*\*?", text)}
    assert written - {"iam:PassedToService"} == set(), "the name of a condition's key is no action"


@pytest.mark.parametrize("role", ROLES)
def test_no_right_that_the_tool_must_not_have(role: str) -> None:
    """No wildcard; no tables or databases dropped, none made but `default`, no versions of objects, no policies, no other service."""
    forbidden = r"\*|Delete(Table|Database|Bucket|ObjectVersion)|Policy|CreateDatabase|s3:PutBucket"
    wrong = {(purpose, action) for purpose, actions in rights.given(role).items() for action in actions if re.search(forbidden, action)}
    assert wrong == ({("default", "glue:CreateDatabase")} if role == "job" else set()), "which is granted on `default` alone"
    services = {action.split(":")[0] for action in rights.actions(role)}
    assert services <= {"s3", "glue", "kms", "logs", "sns", "cloudwatch", "emr-serverless", "elasticmapreduce", "iam", "secretsmanager"}


def test_a_caller_changes_no_data() -> None:
    """Starting jobs is all it does; it writes plans, marks of what people were told and, where `discover` is on, configurations of tables."""
    given = rights.given("caller")
    assert {
        action for purpose, each in given.items() for action in each if purpose != "discovered" and action.startswith(("s3:Delete", "glue:"))
    } == set()
    assert [purpose for purpose, actions in given.items() if "s3:PutObject" in actions] == ["plans", "notices", "discovered"]


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([("s3", "ListObjectsV2"), ("s3", "HeadObject")], {"s3:ListBucket", "s3:GetObject"}),
        ([("s3", "CopyObject")], {"s3:GetObject", "s3:PutObject"}),
        ([("glue", "UpdateTable")], {"glue:UpdateTable"}),
        ([("emr", "AddJobFlowSteps")], {"elasticmapreduce:AddJobFlowSteps"}),
        ([], set()),
    ],
)
def test_recorded_calls_are_translated_to_actions(calls: list[tuple[str, str]], expected: set[str]) -> None:
    """Many operations of S3 need a right of another name."""
    assert rights.needed(calls) == expected


def test_a_key_needs_rights_of_its_own() -> None:
    """Beside those on the object."""
    assert rights.needed([("s3", "PutObject")], ["PutObject"]) == {"s3:PutObject", "kms:GenerateDataKey"}
    assert rights.needed([], ["CopyObject"]) == {"kms:Decrypt", "kms:GenerateDataKey"}


def test_an_operation_that_nobody_translated_is_not_passed_over() -> None:
    """It must be looked up once, by a person."""
    with pytest.raises(KeyError, match="PutObjectAcl"):
        rights.needed([("s3", "PutObjectAcl")])
