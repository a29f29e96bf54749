"""Evolution: how a table's schema follows its writers, as one function, `evolve`.

The first rule that fits a writer's column and the stored column with the same source name applies:

| writer's column | stored column | result |
|---|---|---|
| a new name | - | added; rows of older writers read its default at that time |
| the same type, or one that fits into it | unchanged | unchanged |
| a wider type (int → bigint, decimal digits up, float → double) | widened: a new generation |
| a timestamp for dates, or the reverse | refused; with `date_to_timestamp: evolve` dates become midnights: a new generation |
| bytes for text, or the reverse | refused; with `string_to_bytes: evolve` text becomes UTF-8 bytes: a new generation |
| a struct with more, fewer or wider members | each member follows as a column does (`core/schema/nested_types.py`): a new generation |
| integers for fractions, or the reverse (JSON without schema) | double: a new generation |
| two scalars without a common number type (boolean → text) | refused; with `to_string: evolve` text: a new generation |
| another type (not a guessed one), after the column was removed or before it existed | a new column; the view shows the newest of a name |
| arrays of another depth (`integer[]` has `{1}` and `{{1}}`) | refused; with `to_string: evolve` text, as JSON: a new generation |
| anything else (struct → array) | refused; increments stay in landing |
| another name, with the old one as an Avro alias | the same column; the view shows the new name |
| no such column (removed) | kept; null in new rows |

This is `on_schema_change: evolve`. `core/schema/policy.py` has what the other policies refuse or leave out.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from compactor.core.model import names, types
from compactor.core.model.errors import SchemaRefused
from compactor.core.model.policy import EVOLVE, EXPLICIT, TO_STRING, Policy
from compactor.core.model.position import Position, at_or_below, latest
from compactor.core.model.schema import RESERVED, Field, Schema
from compactor.core.model.spec import ROW_ID
from compactor.core.schema import nested_types, policy
from compactor.core.schema.change import Change
from compactor.core.schema.policy import Decision
from compactor.core.schema.writer import WriterField, WriterSchema


@dataclass(frozen=True)
class Evolved:
    """The result of `evolve`."""

    schema: Schema
    """The stored schema after these writers."""
    columns: dict[str, dict[str, str]]
    """Writer id → {source name: stored name}."""
    retyped: tuple[str, ...] = ()
    """Stored names of the columns whose type changed."""
    texts: tuple[str, ...] = ()
    """Stored names of the columns that became text."""
    added: tuple[str, ...] = ()
    """Stored names of the new columns."""
    decisions: tuple[Decision, ...] = ()
    """The changes of an existing table, and what the table does about each."""


def evolve(schema: Schema | None, writers: Sequence[WriterSchema], key: Sequence[str], version: int, table: str, follow: Policy = EVOLVE) -> Evolved:
    """Return the stored schema that can store the rows of all `writers`.

    `schema`: the table's schema so far; None for a new table. `key`: in the source's spelling. `version`: the version that is being made.
    `follow`: the table's policy. Raises SchemaRefused, which carries the decisions, for a change that cannot or must not be followed.
    """
    fields: list[Field] = list(schema.fields) if schema else [] if key else [Field(ROW_ID, ROW_ID, "string", visible=False)]
    retyped: list[str] = []
    columns: dict[str, dict[str, str]] = {}
    log = _Log(schema, follow)
    # in a run the newest writer decides which column a name means; writers without Position come first
    for writer in sorted(writers, key=lambda w: (w.first is not None, [(v is not None, v or 0) for v in w.first or ()])):
        columns[writer.id] = {}
        written = [field.last for field in fields]
        for column in writer.fields:
            explicit = _explicit_kinds(column, key)
            at = _owner(fields, column, writer, written, [kind for kind in explicit if follow.of(kind) == "evolve"])
            if at is None:
                if not log.comes(column, fields):
                    continue
                fields.append(_new(fields, column, writer, version))
                at = len(fields) - 1
            else:
                followed = _followed(fields[at], column, writer, table, explicit, retyped, log)
                kept = {} if writer.whole else {name: getattr(fields[at], name) for name in ("last", "gone")}
                fields[at] = dataclasses.replace(followed, **kept)
            columns[writer.id][column.name] = fields[at].name
        for name in writer.undecided:
            # a column with nulls only has no type, but it exists
            same = [at for at, field in enumerate(fields) if field.source == name]
            if same:
                at = _newest(fields, same)
                fields[at] = dataclasses.replace(fields[at], last=latest([fields[at].last, writer.last]))
    before = {field.name for field in schema.fields} if schema else set()
    changed = tuple(name for name in dict.fromkeys(retyped) if name in before)
    generation = (schema.generation if schema else 1) + (1 if changed else 0)
    stored_key = (ROW_ID,) if not key else tuple(_key_column(fields, name, table, schema) for name in key)
    if schema and {*stored_key} != {*schema.key}:
        was, now = (", ".join(key_) if key_ != (ROW_ID,) else "none" for key_ in (schema.key, stored_key))
        raise SchemaRefused(
            f"table {table}: expected the key ({was}), by which its rows are stored, found ({now}). A key never changes in place. Set `key:` to the "
            f"old key, or rebuild the table from its archive with the new one: compactor rebuild {table} --accept-differences"
        )
    stored_key = schema.key if schema else stored_key
    added = tuple(field.name for field in fields if field.name not in before)
    log.gone(fields, stored_key)
    policy.check(table, log.decisions, follow)
    registered = schema.registered if schema else None
    shown = _shown(fields, stored_key if follow.hides else None)
    texts = tuple(decision.stored for decision in log.decisions if decision.change.kind == TO_STRING and decision.stored in changed)
    return Evolved(Schema(tuple(shown), stored_key, generation, registered), columns, changed, texts, added, tuple(log.decisions))


class _Log:
    """Collects the changes of an existing table, each one once, and the decisions of its policy about them."""

    def __init__(self, schema: Schema | None, follow: Policy) -> None:
        self.decisions: list[Decision] = []
        self._before = {field.name: field for field in schema.fields} if schema else {}
        self._schema = schema
        self._follow = follow

    def comes(self, column: WriterField, fields: Sequence[Field]) -> bool:
        """Decide about a writer's column without a stored column. Return whether it becomes one."""
        if self._schema is None:
            return True
        same = [field for field in fields if field.source == column.name]
        stored = names.unique(names.stored_name(column.name), [*RESERVED, *(field.name for field in fields)])
        if same:
            return self._decide(Change("replaced", column.name, same[-1].type, types.text(column.type)), stored) != "leave out"
        older = "null in older rows" if column.default is None else f"older rows read {json.dumps(column.default, ensure_ascii=False)}"
        return self._decide(Change("added", column.name, after=types.text(column.type), detail=older), stored) != "leave out"

    def within(self, field: Field) -> Callable[[Change], bool]:
        """Return a callback for `nested_types.joined` that decides about differences between a stored column's type and a writer's."""

        def follows(change: Change) -> bool:
            # a column that is new in this run does not change for the table: only what no type or no meaning can follow counts
            refused = change.kind in (*types.ON_REQUEST, "incompatible") and policy.action(self._follow, change.kind) == "refuse"
            if field.name not in self._before and not refused:
                return True
            return self._decide(change, field.name) != "leave out"

        return follows

    def renamed(self, field: Field, name: str) -> bool:
        """Decide about a stored column with a new name in the source. Return whether the view shows the new name."""
        return field.name not in self._before or self._decide(Change("renamed", name, field.source), field.name) == "rename"

    def gone(self, fields: Sequence[Field], key: Sequence[str]) -> None:
        """Decide about columns, and members of structs, that the newest writer does not have any more."""
        newest_before, newest = (latest([field.last for field in each]) for each in (self._before.values(), fields))
        for field in fields if not self._follow.patch_rows else ():
            before = self._before.get(field.name)
            newly = before is not None and before.visible and not _away(before, newest_before) and _away(field, newest)
            if newly and field.name not in key and not any(other.source == field.source and other is not field for other in fields):
                self._decide(Change("removed", field.source, before=field.type), field.name)
            for path in field.gone if before is not None and before.visible else ():
                was = nested_types.paths(types.parse(before.type)).get(path) if before is not None and path not in before.gone else None
                if was is not None:
                    # a view can hide columns, but no members of structs
                    self._decide(Change("removed", f"{field.source}{path}", before=types.text(was)), field.name, hides=False)

    def _decide(self, change: Change, stored: str, hides: bool = True) -> str:
        action = policy.action(self._follow, change.kind)
        decision = Decision(change, "keep" if action == "hide" and not hides else action, stored)
        # several writers of a run may have the same change
        if not any((each.change.kind, each.change.column) == (change.kind, change.column) for each in self.decisions):
            self.decisions.append(decision)
        return decision.action


def _away(field: Field, newest: Position | None) -> bool:
    """Return whether a column is missing from the newest event, which has other columns. `newest`: where any column was written last."""
    return newest is not None and field.last is not None and at_or_below(field.last, newest) and field.last != newest


def _owner(fields: list[Field], column: WriterField, writer: WriterSchema, written: Sequence[Position | None], also: Collection[str]) -> int | None:
    named = [at for at, field in enumerate(fields) if field.source == column.name] or _under_another_name(fields, column, writer)
    if named and (column.undecided or fields[_newest(fields, named)].undecided):
        return _newest(fields, named)
    for at in reversed(named):
        if _joined(types.parse(fields[at].type), column, also) == types.parse(fields[at].type):
            return at
    if not named:
        return None
    newest = _newest(fields, named)
    came_later = writer.last is not None and at_or_below(writer.last, fields[newest].first) and writer.last != fields[newest].first
    # between its last writer and this one, in this or an earlier run, some writer had other columns and not this one
    was_away = any(_between(fields[newest].last, last, writer.first) for last in written)
    joined = _joined(types.parse(fields[newest].type), column, also)
    # another guessed type is no reason for a new column: the guess from the next file may differ again
    return None if joined is None and not column.guessed and (came_later or was_away) else newest


def _under_another_name(fields: list[Field], column: WriterField, writer: WriterSchema) -> list[int]:
    """Return the stored columns that Avro aliases connect with a writer's column, in either direction. The writer must not have both."""
    joined = [at for at, field in enumerate(fields) if column.name in field.formerly or field.source in column.aliases]
    return [at for at in joined if writer.field(fields[at].source) is None and fields[at].visible]


def _newest(fields: list[Field], named: list[int]) -> int:
    """Return the column that was written last, of columns with the same source name."""
    return max(named, key=lambda at: [(v is not None, v or 0) for v in fields[at].last or ()])


def _between(low: Position | None, position: Position | None, high: Position | None) -> bool:
    return at_or_below(low, position) and not at_or_below(position, low) and at_or_below(position, high)


def _explicit_kinds(column: WriterField, key: Sequence[str]) -> list[str]:
    """Return the kinds in EXPLICIT that may be followed for a column.

    A key's text stays text. Text in JSON without schema may be bytes in any encoding.
    """
    return [kind for kind in EXPLICIT if kind != "string_to_bytes" or not (column.name in key or column.inferred)]


def _joined(stored: types.Type, column: WriterField, also: Collection[str]) -> types.Type | None:
    """Return the type that can store both the stored values and the new ones, or None. `also` is that of `types.widest`."""
    return types.widest(stored, column.type, column.inferred, also)


def _only_text(stored: types.Type, column: WriterField) -> bool:
    """Return whether only text can store both: scalars without a common number type, or arrays of different depths."""
    if _joined(stored, column, EXPLICIT) is not None:
        return False
    return (types.is_scalar(stored) and types.is_scalar(column.type)) or types.depth(stored) != types.depth(column.type) > 0 < types.depth(stored)


def _new(fields: list[Field], column: WriterField, writer: WriterSchema, version: int) -> Field:
    name = names.unique(names.stored_name(column.name), [*RESERVED, *(field.name for field in fields)])
    kind = types.text(_with_default(column.type, column.default))
    new = Field(name, column.name, kind, version, writer.first, writer.last, column.default, True, names.comment(column.doc))
    return dataclasses.replace(new, undecided=column.undecided)


def _with_default(kind: types.Type, default: Any) -> types.Type:
    """Return the type of a column with a default. Spark and Hive call four bytes `float`, Trino `real`: no SQL for all has such a constant."""
    return ("double",) if kind == ("float",) and default is not None else kind


def _followed(field: Field, column: WriterField, writer: WriterSchema, table: str, explicit: Collection[str], retyped: list[str], log: _Log) -> Field:
    stored, follows = types.parse(field.type), log.within(field)
    if column.undecided:
        joined: types.Type | None = stored
    elif field.undecided:
        # `[]` and `{}` are values of every array and struct; beside other values they stay their text
        joined = stored if types.is_scalar(column.type) else column.type
    elif _only_text(stored, column):
        joined = ("string",)
        if stored != joined:
            follows(Change(TO_STRING, field.source, field.type, types.text(column.type)))
    else:
        joined = nested_types.joined(stored, column.type, field.source, column.inferred, explicit, follows)
    if joined is None:
        change = log.decisions[-1].change
        inside = "" if change.column == field.source else f" ({change.sentence})"
        raise SchemaRefused(
            f"table {table}, column {field.source}: stored as {field.type}, the new data has {types.text(column.type)}, and no type can store both"
            f"{inside}. The increments stay in landing. {'' if inside else policy.declare([change])}Repair the producer, or rename the column.",
            tuple(log.decisions),
        )
    last = latest([field.last, writer.last])
    earlier = writer.first is not None and at_or_below(writer.first, field.first)
    # an older writer with the column moves its beginning back; the default is that of the beginning
    first, default = (writer.first, column.default) if earlier else (field.first, field.default)
    default, joined = _default(default, joined, field, table), _with_default(joined, default)
    if joined != stored:
        retyped.append(field.name)
    comment = names.comment(column.doc) if column.doc and last == writer.last else field.comment
    # in JSON without schema a removed member looks like a null one
    gone = nested_types.lacking(joined, column.type) if last == writer.last and not column.inferred else field.gone
    followed = dataclasses.replace(field, type=types.text(joined), last=last, first=first, default=default, comment=comment, gone=gone)
    followed = dataclasses.replace(followed, undecided=field.undecided and column.undecided)
    if column.name != field.source and column.name not in field.formerly and last == writer.last and log.renamed(field, column.name):
        # the stored name never changes; the view uses the source's name
        return dataclasses.replace(followed, source=column.name, formerly=(*field.formerly, field.source))
    return followed


def _default(default: Any, kind: types.Type, field: Field, table: str) -> Any:
    """Return a default as a value of its column's type, as which every view writes it. Raises SchemaRefused for bytes."""
    if default is not None and kind[0] == "binary":
        raise SchemaRefused(
            f"table {table}, column {field.source}: older rows show its default {default!r}, and no SQL that Spark, Hive and Trino all read has a "
            "constant of bytes. The increments stay in landing. Keep the column text, or give the bytes another name."
        )
    return types.constant(default, kind)


def _key_column(fields: list[Field], name: str, table: str, before: Schema | None) -> str:
    exact = [field.name for field in fields if field.source == name or name in field.formerly]
    exact = exact or [field.name for field in fields if field.source.lower() == name.lower()]
    if not exact:
        names_ = ", ".join(field.source for field in fields) or "none"
        raise SchemaRefused(f"table {table}: the data has no key column {name!r}; it has the columns {names_}. Correct `key:`.")
    kind = next(field.type for field in fields if field.name == exact[0])
    if types.parse(kind)[0] in ("float", "double", "array", "map", "struct"):
        change = Change("incompatible", name, before.field(exact[0]).type, kind) if before and exact[0] in before.key else None
        decisions = (Decision(change, "refuse", exact[0]),) if change else ()
        raise SchemaRefused(
            f"table {table}: key column {name!r} has the type {kind}, whose equality differs between engines. "
            f"{policy.declare([change]) if change else 'Choose another key, or declare its type in `types:`.'}".rstrip(),
            decisions,
        )
    return exact[0]


def _shown(fields: list[Field], hidden_but: Sequence[str] | None) -> list[Field]:
    """Return the columns with their visibility. The view shows the newest column of each source name.

    With `hidden_but` (the key) it also hides every other column that the source has removed.
    """
    newest: dict[str, Field] = {}
    for field in fields:
        rival = newest.get(field.source)
        if rival is None or not at_or_below(field.last, rival.last):
            newest[field.source] = field
    last = latest([field.last for field in fields])
    gone = [field.name for field in fields if hidden_but is not None and field.name not in hidden_but and _away(field, last)]
    hidden = {ROW_ID, *gone, *(field.name for field in fields if field.undecided)}
    return [dataclasses.replace(field, visible=newest[field.source] is field and field.name not in hidden) for field in fields]
