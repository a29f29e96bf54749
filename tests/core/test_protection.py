"""`columns:` without an engine: what is left of a writer's columns, and what the configuration refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from compactor import job
from compactor.app import App
from compactor.config.settings import load
from compactor.core.model.errors import ConfigError, Refused
from compactor.core.model.policy import Protection
from compactor.core.model.schema import Field, Schema
from compactor.core.model.spec import TableSpec
from compactor.core.schema import protection
from compactor.core.schema.writer import WriterField, WriterSchema
from compactor.core.settings.job_config import JobConfig
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
    schema = protection.marked(Schema((Field("mail", "mail_address", "string", formerly=("mail",)),), ("id",)), RULES)
    assert [each.protection for each in schema.fields] == ["hash"]
    protection.check("t", schema, RULES)
    with pytest.raises(Refused, match="has no rule for mail_address, but stored rows were written with hash"):
        protection.check("t", schema, ())


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ("columns: {ssn: hide}, archive: keep", "ssn: expected exclude, hash, mask"),
        ("columns: [ssn], archive: keep", "expected a mapping such as"),
        ("columns: {ID: hash}, archive: keep", "ID belongs to `key` or `order_by`"),
        ("columns: {at: hash}, archive: keep, order_by: [at]", "at belongs to `key` or `order_by`"),
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
    assert TableSpec.from_json(spec.to_json()).columns == tuple(RULES)
