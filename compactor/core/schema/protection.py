"""Protection: columns whose values are left out, hashed, masked or made null before anything is written (`columns:`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from compactor.core.model.errors import Refused
from compactor.core.model.policy import EXCLUDE, HASH, MASK, NULL, Protection
from compactor.core.model.schema import Field, Schema
from compactor.core.schema.writer import WriterField, WriterSchema


def protected(writer: WriterSchema, rules: Sequence[Protection]) -> WriterSchema:
    """Return the writer's columns as they are stored: without excluded ones, hashed and masked ones as text, none of these with a default."""
    fields = [(field, _rule(rules, field.name, *field.aliases)) for field in writer.fields]
    # the source's default is shown by rows that lack the column, and nothing would protect it
    kept = tuple(
        dataclasses.replace(field, default=None, type=field.type if rule.kind == NULL else ("string",)) if rule else field
        for field, rule in fields
        if rule is None or rule.kind != EXCLUDE
    )
    undecided = tuple(name for name in writer.undecided if (rule := _rule(rules, name)) is None or rule.kind != EXCLUDE)
    return dataclasses.replace(writer, fields=kept, undecided=undecided)


def as_text(writers: Sequence[WriterSchema], rules: Sequence[Protection]) -> list[WriterField]:
    """Return the columns whose values are read as the source wrote them, so that 7.50 has one hash."""
    fields = [field for writer in writers for field in writer.fields]
    covered = [(field.name, _rule(rules, field.name, *field.aliases)) for field in fields]
    return [WriterField(name, ("string",), ("string",)) for name, rule in covered if rule is not None and rule.kind in (HASH, MASK)]


def marked(schema: Schema, rules: Sequence[Protection], secret: str = "") -> Schema:
    """Return the schema with the rule of each column. `secret`: the fingerprint of the secret of hashes."""
    texts = ((field, _text(rules, field)) for field in schema.fields)
    fields = (dataclasses.replace(field, protection=f"{rule} {secret}" if rule == HASH else rule) for field, rule in texts)
    return dataclasses.replace(schema, fields=tuple(fields))


def needed(rules: Sequence[Protection], key: Sequence[str], order_by: Sequence[str]) -> str:
    """Return why a rule cannot protect its column: rows are identified and ordered by what is stored. "" if none is such a column.

    `key`: with that of the shard.
    """
    of = {**dict.fromkeys(key, "key"), **{name.removeprefix("after."): "order_by" for name in order_by}}
    sentences = (
        f"{rule.column} belongs to `{place}`, which every row stores as it is" for rule in rules for name, place in of.items() if rule.covers(name)
    )
    return next(sentences, "")


def check(table: str, schema: Schema | None, rules: Sequence[Protection], secret: str = "") -> None:
    """Raise Refused if stored rows were written under other rules, or hashed with another secret. `secret`: its fingerprint, if it is at hand."""
    for field in schema.fields if schema else ():
        rule, (stored, _, before) = _text(rules, field), field.protection.partition(" ")
        if rule != stored:
            raise Refused(
                f"table {table}: `columns:` has {rule or 'no rule'} for {field.source}, but stored rows were written with "
                f"{stored or 'no rule'}. Nothing was written. Go back to that rule, or begin the table anew from its source: older "
                "versions, the archive and the feed hold what was written before."
            )
        if secret and before and before != secret:
            raise Refused(
                f"table {table}: the secret of hashes (COMPACTOR_HASH_KEY, or `hash_secret`) is not the one that {field.source} was hashed with, so "
                "equal values would have other hashes. Nothing was written. Set that secret, or begin the table anew from its source."
            )


def _rule(rules: Sequence[Protection], *spellings: str) -> Protection | None:
    return next((rule for rule in rules if rule.covers(*spellings)), None)


def _text(rules: Sequence[Protection], field: Field) -> str:
    rule = _rule(rules, field.source, *field.formerly)
    return rule.text if rule is not None else ""
