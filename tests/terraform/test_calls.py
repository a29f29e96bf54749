"""Least privilege, by recording: what the tool asks of S3 and Glue while everything it can do is done, against what `iam.tf` gives a job.

No call without a right, no right without a call or another user of it who is named here, no object touched outside the folders of the policy.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import boto3
import botocore.session
import pytest
from botocore import xform_name

from compactor.app.app import App
from compactor.aws.client import ClientConfig
from compactor.catalog.glue.catalog import GlueCatalog
from compactor.core.catalog.ddl import PartitionDef
from compactor.core.model.errors import CompactorError
from compactor.core.model.layout import Layout
from compactor.core.settings.s3 import S3Settings
from compactor.flows.environment import Environment
from compactor.flows.run import run_table
from compactor.flows.table import Table
from compactor.storage.s3.storage import S3Storage
from tests.flows.test_every_crash import DELIVERIES
from tests.oracle.lake import Lake, table
from tests.oracle.whole_engine import WholeEngine
from tests.parts.proxy import Fault, Proxy
from tests.parts.s3 import Server
from tests.terraform import rights

pytestmark = pytest.mark.terraform

PACKAGE = Path(__file__).parents[2] / "compactor"
WAREHOUSE, LANDING = "s3://lake/cdc", "s3://sink/raw"
KEY = "arn:aws:kms:us-east-1:123456789012:key/archive"

OF_DEFAULT = {"glue:CreateDatabase": "a job makes no database but `default`; the tool asks for it where there is none"}

OTHERS = {
    "s3:ListBucketMultipartUploads": "S3A's committers",
    "glue:GetDatabases": "EMR's Hive client",
    "glue:GetUserDefinedFunctions": "EMR's Hive client",
    "glue:GetTables": "Spark, through EMR's Hive client",
    "glue:GetPartition": "Spark, through EMR's Hive client",
    "glue:UpdatePartition": "EMR's Hive client, where `catalog.type` is hive on EMR",
    "glue:DeletePartition": "EMR's Hive client, where `catalog.type` is hive on EMR",
    "logs:DescribeLogGroups": "EMR Serverless, as the job",
    "logs:CreateLogStream": "EMR Serverless, as the job",
    "logs:DescribeLogStreams": "EMR Serverless, as the job",
    "logs:PutLogEvents": "EMR Serverless, as the job",
    "sns:Publish": "whoever tells of failures",
    "cloudwatch:PutMetricData": "`metrics:`, after a run",
    "secretsmanager:GetSecretValue": "`hash_secret:`, where a table hashes columns or has erased keys",
}
"""Rights of a job that no call of boto3 in this package needs, and whose they are."""


@dataclass
class Calls:
    """What boto3 was asked: (service, operation) and the parameters."""

    made: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    sent: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    """The requests to S3: (operation, s3:// location, headers)."""

    @property
    def names(self) -> set[tuple[str, str]]:
        """Without parameters."""
        return {(service, operation) for service, operation, _ in self.made}

    @property
    def keyed(self) -> list[tuple[str, str]]:
        """(operation, object) of the requests that named the table's key."""
        return [(operation, f"s3://{given['Bucket']}/{given['Key']}") for _, operation, given in self.made if given.get("SSEKMSKeyId") == KEY]

    def touched(self, *operations: str) -> set[str]:
        """The objects that these operations of S3 named."""
        found = set()
        for service, operation, given in self.made:
            if service == "s3" and operation in operations:
                keys = [item["Key"] for item in given["Delete"]["Objects"]] if "Delete" in given else [given["Key"]]
                found |= {f"s3://{given['Bucket']}/{key}" for key in keys}
        return found


@contextmanager
def recorded() -> Iterator[Calls]:
    """Every client that is made meanwhile is listened to."""
    calls, real = Calls(), boto3.session.Session.client

    def client(self: Any, service: str, *args: Any, **more: Any) -> Any:
        made = real(self, service, *args, **more)

        def hear(params: dict[str, Any], model: Any, **_: Any) -> None:
            calls.made.append((service, model.name, params))

        def see(request: Any, event_name: str, **_: Any) -> None:
            headers = {name: value.decode() if isinstance(value, bytes) else value for name, value in request.headers.items()}
            calls.sent.append((event_name.rpartition(".")[2], f"s3:/{unquote(urlsplit(request.url).path)}", headers))

        made.meta.events.register("provide-client-params", hear)
        made.meta.events.register("before-send.s3", see)
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boto3.session.Session, "client", client)
        yield calls


class Job(Lake):
    """A table whose landing is a sink's bucket, whose catalog is Glue, whose storage is what `App` makes of a configuration."""

    def __init__(self, storage: Any, url: str) -> None:
        super().__init__(table(root=f"{WAREHOUSE}/t", landing=f"{LANDING}/t", athena=True))
        self._through = storage
        self._glue = GlueCatalog(ClientConfig("us-east-1", url))
        self.storage = S3Storage("s3://sink", S3Settings(endpoint=url, path_style=True, region="us-east-1"))  # type: ignore[assignment]

    def play(self, verb: Callable[[Table], object] = run_table) -> None:
        """One run, or another verb."""
        self.now += 1.0
        engine = WholeEngine(self._through)
        verb(
            Table(
                Environment(
                    self._through, lambda: engine, lambda: self._glue, self._clock, lambda: f"{next(self._nonces):08x}", catalog_name=lambda: "glue"
                ),
                self.spec,
            )
        )


@pytest.fixture(scope="module")
def calls(server: Server, proxy: Proxy, tmp_path_factory: pytest.TempPathFactory) -> Calls:
    """Recorded once: three runs of a table with everything in them, and by hand what only large or odd objects bring about."""
    server.bucket("sink")
    file = tmp_path_factory.mktemp("config") / "compactor.yaml"
    text = f"warehouse: {WAREHOUSE}\ncatalog: {{type: glue, database: school}}\ns3: {{path_style: true, endpoint: '{proxy.url}'}}\ntables: {{t: {{key: [id], archive_kms_key: '{KEY}'}}}}\n"
    file.write_text(text, encoding="utf-8")
    proxy.plan()
    # the sink's own writes are not the tool's
    lake = Job(None, server.url)
    with recorded() as found:
        app = App.open(file)
        lake._through = app.runtime.storage
        lake._glue = GlueCatalog(ClientConfig("us-east-1", server.url))
        for deliver in DELIVERIES:
            with unheard(found):
                deliver(lake)
            lake.play()
        lake._glue.drop_partitions("school", "t_base", [each.values for each in lake._glue.partitions("school", "t_base")][:1])
        lake._glue.ensure_partitions("school", "t_delta", recounted(lake))
        by_hand(lake, proxy, found)
    proxy.plan()
    return found


@contextmanager
def unheard(calls: Calls) -> Iterator[None]:
    """What happens here is not recorded."""
    made, sent = [*calls.made], [*calls.sent]
    yield
    calls.made[:], calls.sent[:] = made, sent


def recounted(lake: Job) -> list[PartitionDef]:
    """Partitions with other statistics than registered."""
    return [dataclasses.replace(each, rows=(each.rows or 0) + 1) for each in lake._glue.partitions("school", "t_delta")]


def by_hand(lake: Job, proxy: Proxy, calls: Calls) -> None:
    """Objects in parts, a copy in parts that fails, names that no batch can hold, the time."""
    settings = S3Settings(path_style=True, region="us-east-1", endpoint=proxy.url, copy_bytes_max=1000, copy_part_bytes=700, client_attempts=1)
    small = S3Storage(WAREHOUSE, settings, {f"{WAREHOUSE}/t": KEY})
    for fault in ((), (Fault("400 InvalidPart", path=r"uploadId=.*", method="POST"),)):
        with unheard(calls):
            lake.storage.write(f"{LANDING}/t/big", b"x" * 2000)
            info = lake.storage.stat(f"{LANDING}/t/big")
        proxy.plan(*fault)
        with suppress(CompactorError):
            small.move(info, f"{WAREHOUSE}/t/archive/big{len(fault)}")  # type: ignore[arg-type]
    proxy.plan()
    with unheard(calls):
        lake.storage.write(f"{WAREHOUSE}/t/archive/old", b"x")
    small.encrypt(f"{WAREHOUSE}/t/archive/old")
    small.write(f"{WAREHOUSE}/t/archive/old", b"rewritten")
    small.delete([f"{WAREHOUSE}/t/none"])
    small.delete([f"{WAREHOUSE}/t/none", f"{WAREHOUSE}/t/neither", f"{WAREHOUSE}/t/\x01"])
    small.now()


def operations(service: str, *modules: str) -> set[tuple[str, str]]:
    """The operations of a service that modules of the package name, as texts in their code."""
    known = {xform_name(name): name for name in botocore.session.get_session().get_service_model(service).operation_names}
    trees = [ast.parse((PACKAGE / module).read_text()) for module in modules]
    texts = {node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {(service, known[text]) for text in texts if text in known}


def test_the_recording_holds_every_call_that_the_code_can_make(calls: Calls) -> None:
    """So that what follows speaks of all of them."""
    code = operations("s3", "storage/s3/storage.py", "storage/s3/client.py", "storage/s3/move.py") | operations("glue", "catalog/glue/catalog.py")
    assert calls.names == code
    assert len(code) > 15


def needed(calls: Calls) -> set[str]:
    """The rights for all calls, those on the table's key too."""
    return rights.needed(calls.names, {operation for operation, _ in calls.keyed})


def test_no_call_lacks_its_right(calls: Calls) -> None:
    assert needed(calls) - (rights.actions("job") - set(OF_DEFAULT)) == set(OF_DEFAULT)


def test_no_right_lacks_its_call(calls: Calls) -> None:
    """Or another user, who is named."""
    assert rights.actions("job") - needed(calls) == set(OTHERS)


def test_the_key_of_the_archive_is_used_for_raw_files_and_for_all_of_them(calls: Calls) -> None:
    """Whatever creates an object there names it; nothing else does."""
    raw = Layout(f"{WAREHOUSE}/t", "").raw_file
    assert {operation for operation, _ in calls.keyed} == set(rights.KMS_RIGHTS)
    assert [path for _, path in calls.keyed if not raw(path)] == []
    assert {path for path in calls.touched(*rights.KMS_RIGHTS) if raw(path)} == {path for _, path in calls.keyed}


WRITES = ("PutObject", "CopyObject", "CreateMultipartUpload", "UploadPartCopy", "CompleteMultipartUpload", "AbortMultipartUpload")


@pytest.mark.parametrize(
    ("operation", "where"),
    [
        pytest.param(WRITES, (WAREHOUSE, f"{LANDING}/t/_compactor"), id="writes stay below the warehouse, apart from the mark of landing"),
        pytest.param(("DeleteObject", "DeleteObjects"), (WAREHOUSE, LANDING), id="deletes stay below the warehouse and landing"),
        pytest.param(("GetObject", "HeadObject"), (WAREHOUSE, LANDING), id="reads stay below the warehouse and landing"),
    ],
)
def test_objects_outside_the_policy_are_never_touched(calls: Calls, operation: tuple[str, ...], where: tuple[str, ...]) -> None:
    """The probe for conditional puts is one of them: where nothing else is written it would be denied."""
    touched = calls.touched(*operation)
    assert touched
    assert [path for path in sorted(touched) if not path.startswith(tuple(f"{each}/" for each in where))] == []


def test_listings_name_a_prefix_that_the_policy_knows(calls: Calls) -> None:
    """Below the warehouse or landing; without a prefix only the store's own question for a missing object is let through."""
    asked = {f"s3://{given['Bucket']}/{given.get('Prefix', '')}" for _, operation, given in calls.made if operation == "ListObjectsV2"}
    assert [path for path in sorted(asked) if not path.startswith((f"{WAREHOUSE}/", f"{LANDING}/"))] == []


def test_glue_is_asked_for_objects_of_the_configured_database_only(calls: Calls) -> None:
    named = {given.get("DatabaseName", given.get("Name")) for service, _, given in calls.made if service == "glue" and "DatabaseInput" not in given}
    assert named == {"school"}


def made_by(call: Callable[[], object]) -> set[tuple[str, str]]:
    """What one call asks."""
    with recorded() as found:
        call()
    return found.names


def test_the_recorder_hears(server: Server) -> None:
    """A client made while it listens, and not one made before."""
    storage = S3Storage("s3://lake/x", S3Settings(path_style=True, region="us-east-1", endpoint=server.url))
    assert made_by(storage.now) == {("s3", "ListObjectsV2")}
    assert made_by(storage.now) == set()
