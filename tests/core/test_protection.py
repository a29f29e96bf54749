"""`columns:` without an engine: what is left of a writer's columns, and what the configuration refuses."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from compactor import job
from compactor.app import App
from compactor.app import spark as app_spark
from compactor.aws import client, secrets
from compactor.config.settings import load
from compactor.core.model.errors import ConfigError, Refused
from compactor.core.model.policy import Protection
from compactor.core.model.schema import Field, Schema
from compactor.core.model.spec import TableSpec
from compactor.core.schema import protection
from compactor.core.schema.writer import WriterField, WriterSchema
from compactor.core.settings.job_config import JobConfig
from compactor.spark.rows import protect
from compactor.spark.session import SessionSettings, session_conf
from compactor.storage.s3.storage import S3Storage

KEY = "arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
RULES = (Protection("SSN", "exclude"), Protection("Mail", "hash"), Protection("card", "mask", 4), Protection("note", "null"))


def test_a_writer_has_the_columns_that_are_stored() -> None:
    """Excluded ones are gone, hashed and masked ones are text; no default of the source reaches rows that lack the column."""
    kinds = {"id": ("int",), "ssn": ("string",), "mail": ("bigint",), "CARD": ("decimal", 16, 0), "note": ("date",)}
    writer = WriterSchema("w", tuple(WriterField(name, kind, kind, default=1) for name, kind in kinds.items()))
    made = protection.protected(writer, RULES)
    assert [field.name for field in protection.as_text([writer], RULES)] == ["mail", "CARD"]
    assert {field.name: (field.type, field.default) for field in made.fields} == {
        "id": (("int",), 1),
        "mail": (("string",), None),
        "CARD": (("string",), None),
        "note": (("date",), None),
    }


def test_a_renamed_column_keeps_its_rule() -> None:
    """By the alias that the producer names, and by the names that the column had."""
    field = WriterField("mail_address", ("string",), ("string",), aliases=("mail",))
    assert protection.protected(WriterSchema("w", (field,)), (Protection("mail", "exclude"),)).fields == ()
    schema = protection.marked(Schema((Field("mail", "mail_address", "string", formerly=("mail",)),), ("id",)), RULES, "3fa2")
    assert [each.protection for each in schema.fields] == ["hash 3fa2"]
    protection.check("t", schema, RULES)
    protection.check("t", schema, RULES, "3fa2")
    with pytest.raises(Refused, match="is not the one that mail_address was hashed with"):
        protection.check("t", schema, RULES, "beef")
    with pytest.raises(Refused, match="has no rule for mail_address, but stored rows were written with hash"):
        protection.check("t", schema, ())


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ("columns: {ssn: hide}, archive: keep", "ssn: expected exclude, hash, mask"),
        ("columns: [ssn], archive: keep", "expected a mapping such as"),
        ("columns: {ID: hash}, archive: keep", "ID belongs to `key`, which"),
        ("columns: {at: hash}, archive: keep, order_by: [at]", "at belongs to `order_by`"),
        ("columns: {at: hash}, archive: keep, order_by: [after.at]", "at belongs to `order_by`"),
        ("columns: {Site: hash}, archive: keep, increments: 'of/{site}/%Y'", "Site belongs to `key`, which"),
        ("columns: {ssn: null}", "landed files hold the values as they are; set `archive_kms_key:`.* or `archive:`"),
        (f"columns: {{ssn: null}}, archive_kms_key: '{KEY}', source_table: a.b", "landed files hold the values as they are"),
        (f"columns: {{ssn: null}}, archive_kms_key: '{KEY}', increments: shared/%Y", "landed files hold the values as they are"),
        ("archive_kms_key: alias/archive", "archive_kms_key: expected the ARN of a KMS key, such as .*, found 'alias/archive'"),
        (f"archive_kms_key: '{KEY.replace('key/', 'alias/')}'", "archive_kms_key: expected the ARN of a KMS key"),
        ("columns: {ssn: null}, archive: keep, live_view: true", "excludes `live_view`"),
    ],
)
def test_a_rule_that_would_not_protect_is_refused(tmp_path: Path, keys: str, problem: str) -> None:
    """With the key and the reason."""
    shared = "other: {key: [id], archive: keep, increments: shared/%Y}"
    (tmp_path / "compactor.yaml").write_text(f"warehouse: s3://lake/w\ntables: {{t: {{key: [id], {keys}}}, {shared}}}\n")
    with pytest.raises(ConfigError, match=problem):
        load(tmp_path / "compactor.yaml")


def test_local_disks_have_no_keys(tmp_path: Path) -> None:
    """Each table that would have one is named; `null` takes it away where it comes from `defaults`."""
    file = tmp_path / "compactor.yaml"
    file.write_text(f"defaults: {{archive_kms_key: '{KEY}'}}\ntables: {{a: {{key: [id]}}, b: {{key: [id], archive_kms_key: null}}}}\n")
    with pytest.raises(ConfigError, match=r"local disks have no KMS keys, and the warehouse is .*; set `warehouse: s3://bucket/prefix`") as refused:
        load(file)
    assert [line.partition(": ")[2].partition(":")[0] for line in str(refused.value).splitlines()] == ["table a, key archive_kms_key"]


def test_the_key_of_the_archive_is_a_statement_about_raw_files(tmp_path: Path) -> None:
    """Instead of an explicit `archive`; the store knows it, here and on a cluster, by the tables' roots."""
    file = tmp_path / "compactor.yaml"
    tables = "a: {key: [id], columns: {ssn: null}}, b: {key: [id], archive_kms_key: null}, c: {key: [id], archive: copy}"
    file.write_text(f"warehouse: s3://lake/w\ndefaults: {{archive_kms_key: '{KEY}'}}\ntables: {{{tables}}}\n")
    with App.open(file) as app:
        assert [app.settings.spec(name).archive_kms_key for name in "abc"] == [KEY, "", KEY]
        assert app.settings.spec("a").archive == "move"
        there = JobConfig.read(app.job_config(["a", "b"]).written())
        assert there.specs[0].archive_kms_key == KEY
        for runtime, keys in ((app.runtime, {"s3://lake/w/a": KEY, "s3://lake/w/c": KEY}), (job.runtime(there), {"s3://lake/w/a": KEY})):
            store = runtime.storage.at("s3://lake/w")
            assert isinstance(store, S3Storage)
            assert store._client._archive_keys == keys


def test_rules_travel_to_a_cluster(tmp_path: Path) -> None:
    """As everything else in a spec."""
    (tmp_path / "compactor.yaml").write_text(
        "tables: {t: {key: [id], archive: keep, columns: {SSN: exclude, Mail: hash, card: mask(4), note: null}}}\n"
    )
    spec = load(tmp_path / "compactor.yaml").spec("t")
    assert spec.columns == RULES
    assert JobConfig.read(JobConfig((spec,), "/lake").written()).specs[0].columns == tuple(RULES)


ARN = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:hashes-AbCdEf"


def test_no_secret_and_no_address_travels_to_a_cluster(tmp_path: Path) -> None:
    """The configuration of a job stays in S3: it has the name of the secret; whoever sends the job sends to addresses."""
    targets = "[log, {sns: 'arn:aws:sns:eu-central-1:123456789012:t'}, {webhook: 'https://h/PLANTED'}, {command: [x, PLANTED]}, {apprise: ['slack://PLANTED']}]"
    table = f"{{key: [id], archive: keep, columns: {{mail: hash}}, hash_secret: '{ARN}', notify: {targets}}}"
    (tmp_path / "compactor.yaml").write_text(f"tables: {{t: {table}}}\n")
    with App.open(tmp_path / "compactor.yaml") as app:
        data = app.job_config(["t"]).written()
    assert b"PLANTED" not in data
    there = JobConfig.read(data)
    assert there.specs[0].hash_secret == ARN
    assert there.specs[0].notify == (("log",), ("sns", "arn:aws:sns:eu-central-1:123456789012:t"), ("webhook",), ("command",), ("apprise",))
    with pytest.raises(Refused, match="webhook: messages to this target cannot be sent from a cluster"):
        job.notify(there.specs[0].notify[2], None)  # type: ignore[arg-type]
    (tmp_path / "compactor.yaml").write_text("tables: {t: {key: [id], hash_secret: PLANTED}}\n")
    with pytest.raises(ConfigError, match="expected the ARN of a secret") as refused:
        load(tmp_path / "compactor.yaml")
    assert "PLANTED" not in str(refused.value)


class FakeSecrets:
    """AWS Secrets Manager."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.asked = answer, list[str]()
        self.meta = SimpleNamespace(endpoint_url="https://secrets", events=SimpleNamespace(register=lambda *_: None))

    def client(self, service: str, region_name: str, **_: Any) -> FakeSecrets:
        """A client for the region in the ARN."""
        assert (service, region_name) == ("secretsmanager", "eu-central-1")
        return self

    def get_secret_value(self, SecretId: str) -> dict[str, Any]:
        """The text, or a refusal."""
        self.asked.append(SecretId)
        if isinstance(self.answer, Exception):
            raise self.answer
        return {"SecretString": self.answer} if isinstance(self.answer, str) else {"SecretBinary": self.answer}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("PLANTED secret of hashes", ""),
        ("PLANTED", r"the secret in `hash_secret` \(arn:aws:secretsmanager:.*\) has 7 bytes; expected 16 to 64"),
        (b"PLANTED secret of hashes", "expected a text, found bytes"),
        (ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "x"), "grant secretsmanager:GetSecretValue on it"),
    ],
)
def test_the_secret_is_read_by_its_name(monkeypatch: pytest.MonkeyPatch, answer: Any, expected: str) -> None:
    """With the identity of the process, once; the variable counts for nothing then."""
    fake = FakeSecrets(answer)
    monkeypatch.setattr(client, "make_session", lambda: fake)
    monkeypatch.setenv("COMPACTOR_HASH_KEY", "another secret of hashes")
    secrets.secret_text.cache_clear()
    spec = TableSpec("t", "/t", "/l", "", "d", "t", "d", ("id",), hash_secret=ARN)
    if not expected:
        assert [protect.secret(spec, "x") for _ in range(2)] == [answer.encode()] * 2
        assert fake.asked == [ARN]
        return
    with pytest.raises(Refused, match=expected) as refused:
        protect.secret(spec, "x")
    assert "PLANTED" not in str(refused.value)


@pytest.mark.parametrize(("columns", "encrypted"), [("columns: {ssn: exclude}, archive: keep", True), ("archive: keep", False)])
def test_a_session_for_protected_columns_encrypts_local_disks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, columns: str, encrypted: bool) -> None:
    """On this machine and on a cluster."""
    opened: list[SessionSettings] = []
    monkeypatch.setattr("compactor.spark.session.open_session", opened.append)
    (tmp_path / "compactor.yaml").write_text(f"tables: {{t: {{key: [id], {columns}}}, u: {{key: [id]}}}}\n")
    with App.open(tmp_path / "compactor.yaml") as app:
        app_spark.open_session(app.settings, frozenset(), False, 0.0, {}, False)
        job.runtime(JobConfig.read(app.job_config().written())).spark()
    assert [session_conf(settings).get("spark.io.encryption.enabled") for settings in opened] == ["true" if encrypted else None] * 2
