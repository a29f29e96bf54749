"""How a table's schema follows its writers: one pure function, `evolve`.

Rules, in the order in which they are tried for one writer's column and the stored column of the same source name:

| writer says | stored column | result |
|---|---|---|
| a name never seen | - | added; rows of older writers read the default it came with (H15) |
| the same type, or one that fits | as it is | as it is |
| a wider type (int → bigint, decimal digits up, float → double) | widened: a new generation (H14) |
| a timestamp where dates are, or the other way round | refused; `date_to_timestamp: evolve`: midnights, a new generation |
| bytes where text is, or the other way round | refused; `string_to_bytes: evolve`: UTF-8 bytes, a new generation |
| a struct with more members, fewer, wider ones | each member as a column is (`core/schema/nested_types.py`), the type rewritten: a new generation |
| whole numbers where fractions are, or the other way round (JSON without schema) | double: a new generation |
| two scalars with no common number type (boolean → text) | widened to string: a new generation |
| another type (not a guessed one), after the column was away or before it existed | a new column; the newest of one source name is shown under it |
| arrays of another depth (`integer[]` may hold `{1}` and `{{1}}`) | widened to string, as JSON: a new generation |
| anything else (struct → array) | refused; increments stay in landing |
| another name, with the old one as an Avro alias | the same column; the view shows the new name |
| nothing (column gone) | kept, null in new rows |

That is what `on_schema_change: evolve` does; `core/schema/policy.py` says which of it other policies refuse or leave out.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from compactor.core.model import names, types
from compactor.core.model.errors import SchemaRefused
from compactor.core.model.policy import EVOLVE, EXPLICIT, Policy
from compactor.core.model.position import Position, at_or_below, latest
from compactor.core.model.schema import RESERVED, Field, Schema
from compactor.core.model.spec import ROW_ID
from compactor.core.schema import nested_types, policy
from compactor.core.schema.diff import Change
from compactor.core.schema.policy import Decision
from compactor.core.schema.writer import WriterField, WriterSchema


@dataclass(frozen=True)
class Evolved:
    """The schema after these writers; `columns` maps writer id → {source name: stored name}; `retyped` and `added` name stored columns.

    `decisions` tell what changed for a table that was there before, and what is done about it.
    """

    schema: Schema
    columns: dict[str, dict[str, str]]
    retyped: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    decisions: tuple[Decision, ...] = ()


def evolve(schema: Schema | None, writers: Sequence[WriterSchema], key: Sequence[str], version: int, table: str, follow: Policy = EVOLVE) -> Evolved:
    """The stored schema that holds what all `writers` wrote. `key` is in the source's spelling; `version` is the one being made.

    Raises SchemaRefused naming table, column, what was expected and found; it carries the decisions.
    """
    fields: list[Field] = list(schema.fields) if schema else [] if key else [Field(ROW_ID, ROW_ID, "string", visible=False)]
    retyped: list[str] = []
    columns: dict[str, dict[str, str]] = {}
    log = _Log(schema, follow)
    # within a run the newest writer decides what a name means; _first sorts unknown Positions first
    for writer in sorted(writers, key=lambda w: (w.first is not None, [(v is not None, v or 0) for v in w.first or ()])):
        columns[writer.id] = {}
        written = [field.last for field in fields]
        for column in writer.fields:
            may_ask = _may_ask(column, key)
            at = _owner(fields, column, writer, written, [kind for kind in may_ask if follow.of(kind) == "evolve"])
            if at is None:
                if not log.comes(column, fields):
                    continue
                fields.append(_new(fields, column, writer, version))
                at = len(fields) - 1
            else:
                followed = _followed(fields[at], column, writer, table, may_ask, retyped, log)
                kept = {} if writer.whole else {name: getattr(fields[at], name) for name in ("first", "last", "default", "gone")}
                fields[at] = dataclasses.replace(followed, **kept)
            columns[writer.id][column.name] = fields[at].name
        for name in writer.undecided:
            # a column of nulls only tells no type, but it is there
            known = [at for at, field in enumerate(fields) if field.source == name]
            if known:
                fields[_newest(fields, known)] = _seen(fields[_newest(fields, known)], writer)
    before = {field.name for field in schema.fields} if schema else set()
    changed = tuple(name for name in dict.fromkeys(retyped) if name in before)
    generation = (schema.generation if schema else 1) + (1 if changed else 0)
    stored_key = (ROW_ID,) if not key else tuple(_key_column(fields, name, table) for name in key)
    if schema and {*stored_key} != {*schema.key}:
        was, now = (", ".join(key_) if key_ != (ROW_ID,) else "none" for key_ in (schema.key, stored_key))
        raise SchemaRefused(
            f"table {table}: its rows are stored by the key ({was}), and the key is ({now}) now. A key never changes in place: say the old "
            f"one with `key:`, or build the table anew from its archive with the new one: compactor rebuild {table} --accept-differences"
        )
    stored_key = schema.key if schema else stored_key
    added = tuple(field.name for field in fields if field.name not in before)
    log.gone(fields, stored_key)
    policy.check(table, log.decisions, follow)
    registered = schema.registered if schema else None
    shown = _shown(fields, stored_key if follow.hides else None)
    return Evolved(Schema(tuple(shown), stored_key, generation, registered), columns, changed, added, tuple(log.decisions))


class _Log:
    """What changed of a table that was there before this run, each thing once, and what its policy does about it."""

    def __init__(self, schema: Schema | None, follow: Policy) -> None:
        self.decisions: list[Decision] = []
        self._before = {field.name: field for field in schema.fields} if schema else {}
        self._schema = schema
        self._follow = follow

    def comes(self, column: WriterField, fields: Sequence[Field]) -> bool:
        """A column that no stored one can take up; gives back whether it becomes one."""
        if self._schema is None:
            return True
        held = [field for field in fields if field.source == column.name]
        stored = names.unique(names.stored_name(column.name), [*RESERVED, *(field.name for field in fields)])
        if held:
            return self._decide(Change("replaced", column.name, held[-1].type, types.text(column.type)), stored) != "leave out"
        older = "null in older rows" if column.default is None else f"older rows read {json.dumps(column.default, ensure_ascii=False)}"
        return self._decide(Change("added", column.name, after=types.text(column.type), detail=older), stored) != "leave out"

    def within(self, field: Field) -> Callable[[Change], bool]:
        """What is told of each difference between a stored column's type and a writer's; gives back whether the table follows."""

        def follows(change: Change) -> bool:
            # what a column of this run itself begins with is no change, and refused only where no policy, or none that was named, follows it
            refused = change.kind in (*EXPLICIT, "incompatible") and policy.action(self._follow, change.kind) == "refuse"
            if field.name not in self._before and not refused:
                return True
            return self._decide(change, field.name) != "leave out"

        return follows

    def renamed(self, field: Field, name: str) -> bool:
        """A stored column with another name at the source; gives back whether the view follows."""
        return field.name not in self._before or self._decide(Change("renamed", name, field.source), field.name) == "rename"

    def gone(self, fields: Sequence[Field], key: Sequence[str]) -> None:
        """Columns, and members of their structs, that were written until now, and are not any more."""
        for field in fields if not self._follow.patch_rows else ():
            known = self._before.get(field.name)
            newly = known is not None and known.visible and not _away(known, list(self._before.values())) and _away(field, fields)
            if newly and field.name not in key and not any(other.source == field.source and other is not field for other in fields):
                self._decide(Change("removed", field.source, before=field.type), field.name)
            for path in field.gone if known is not None and known.visible else ():
                was = nested_types.paths(types.parse(known.type)).get(path) if known is not None and path not in known.gone else None
                if was is not None:
                    # a view hides columns, never what is inside them
                    self._decide(Change("removed", f"{field.source}{path}", before=types.text(was)), field.name, hides=False)

    def _decide(self, change: Change, stored: str, hides: bool = True) -> str:
        action = policy.action(self._follow, change.kind)
        decision = Decision(change, "keep" if action == "hide" and not hides else action, stored)
        # several writers of a run may bring the same
        if not any((known.change.kind, known.change.column) == (change.kind, change.column) for known in self.decisions):
            self.decisions.append(decision)
        return decision.action


def _away(field: Field, fields: Sequence[Field]) -> bool:
    """Whether the newest Change that told other columns did not tell this one."""
    newest = latest([other.last for other in fields])
    return newest is not None and field.last is not None and at_or_below(field.last, newest) and field.last != newest


def _seen(field: Field, writer: WriterSchema) -> Field:
    return dataclasses.replace(field, last=latest([field.last, writer.last]))


def _owner(fields: list[Field], column: WriterField, writer: WriterSchema, written: Sequence[Position | None], also: Collection[str]) -> int | None:
    named = [at for at, field in enumerate(fields) if field.source == column.name] or _under_another_name(fields, column, writer)
    for at in reversed(named):
        if _joined(types.parse(fields[at].type), column, also) == types.parse(fields[at].type):
            return at
    if not named:
        return None
    newest = _newest(fields, named)
    came_later = writer.last is not None and at_or_below(writer.last, fields[newest].first) and writer.last != fields[newest].first
    # some writer after its last one and before this one knew other columns and not this one, in this run or an earlier one
    was_away = any(_between(fields[newest].last, last, writer.first) for last in written)
    joined = _joined(types.parse(fields[newest].type), column, also)
    # a guess that differs is no other column: the next file may look otherwise again
    return None if joined is None and not column.guessed and (came_later or was_away) else newest


def _under_another_name(fields: list[Field], column: WriterField, writer: WriterSchema) -> list[int]:
    """Columns that Avro aliases join with this one: it was called so, or they were; never one that this writer has beside it."""
    own = {other.name for other in writer.fields}
    joined = [at for at, field in enumerate(fields) if column.name in field.formerly or field.source in column.aliases]
    return [at for at in joined if fields[at].source not in own and fields[at].visible]


def _newest(fields: list[Field], named: list[int]) -> int:
    """Of the columns that share a source name, the one written last."""
    return max(named, key=lambda at: [(v is not None, v or 0) for v in fields[at].last or ()])


def _between(low: Position | None, position: Position | None, high: Position | None) -> bool:
    return at_or_below(low, position) and not at_or_below(position, low) and at_or_below(position, high)


def _may_ask(column: WriterField, key: Sequence[str]) -> list[str]:
    """The kinds of EXPLICIT that may be followed for a column. A key's text stays text, and text in JSON without schema may be any writing of bytes."""
    return [kind for kind in EXPLICIT if kind != "string_to_bytes" or not (column.name in key or column.inferred)]


def _joined(stored: types.Type, column: WriterField, also: Collection[str]) -> types.Type | None:
    """The type that holds what is stored and what the column brings, or None. `also` as in `types.widest`."""
    return types.widest(stored, column.type, column.inferred, also)


def _only_text(stored: types.Type, column: WriterField) -> bool:
    """Whether only text holds both: scalars that are no common number, arrays of another depth."""
    if _joined(stored, column, EXPLICIT) is not None:
        return False
    return (types.is_scalar(stored) and types.is_scalar(column.type)) or _depth(stored) != _depth(column.type) > 0 < _depth(stored)


def _new(fields: list[Field], column: WriterField, writer: WriterSchema, version: int) -> Field:
    name = names.unique(names.stored_name(column.name), [*RESERVED, *(field.name for field in fields)])
    return Field(name, column.name, types.text(column.type), version, writer.first, writer.last, column.default, True, names.comment(column.doc))


def _followed(field: Field, column: WriterField, writer: WriterSchema, table: str, may_ask: Collection[str], retyped: list[str], log: _Log) -> Field:
    stored, follows = types.parse(field.type), log.within(field)
    if _only_text(stored, column):
        joined: types.Type | None = ("string",)
        if stored != joined:
            more = "" if column.type == joined else f", to hold {types.text(column.type)} too"
            follows(Change("widened", field.source, field.type, "string", more))
    else:
        joined = nested_types.joined(stored, column.type, field.source, column.inferred, may_ask, follows)
    if joined is None:
        change = log.decisions[-1].change
        inside = "" if change.column == field.source else f" ({change.sentence})"
        raise SchemaRefused(
            f"table {table}, column {field.source}: stored as {field.type}, the new data has {types.text(column.type)}, and no type holds both"
            f"{inside}. The increments stay in landing. Repair the producer, or rename the column.",
            tuple(log.decisions),
        )
    if joined != stored:
        retyped.append(field.name)
    last = latest([field.last, writer.last])
    earlier = writer.first is not None and at_or_below(writer.first, field.first)
    # an older writer that knows the column moves its beginning back; the default is the one of the beginning
    first, default = (writer.first, column.default) if earlier else (field.first, field.default)
    comment = names.comment(column.doc) if column.doc and last == writer.last else field.comment
    # values of JSON without schema do not tell a member that is gone from one that is null
    gone = nested_types.lacking(joined, column.type) if last == writer.last and not column.inferred else field.gone
    followed = dataclasses.replace(field, type=types.text(joined), last=last, first=first, default=default, comment=comment, gone=gone)
    if column.name != field.source and column.name not in field.formerly and last == writer.last and log.renamed(field, column.name):
        # stored under its first name for ever; the view takes its name from the source's
        return dataclasses.replace(followed, source=column.name, formerly=(*field.formerly, field.source))
    return followed


def _depth(kind: types.Type) -> int:
    return 1 + _depth(kind[1]) if kind[0] == "array" else 0


def _key_column(fields: list[Field], name: str, table: str) -> str:
    exact = [field.name for field in fields if field.source == name or name in field.formerly]
    exact = exact or [field.name for field in fields if field.source.lower() == name.lower()]
    if not exact:
        known = ", ".join(field.source for field in fields) or "none"
        raise SchemaRefused(f"table {table}: key column {name!r} is not in the data; columns found: {known}. Correct `key:`.")
    kind = next(field.type for field in fields if field.name == exact[0])
    if types.parse(kind)[0] in ("float", "double", "array", "map", "struct"):
        raise SchemaRefused(f"table {table}: key column {name!r} has type {kind}; engines disagree on equality of {kind}. Choose another key.")
    return exact[0]


def _shown(fields: list[Field], hidden_but: Sequence[str] | None) -> list[Field]:
    """Which columns the view shows: of one source name the newest; with `hidden_but` (the key) none that is gone from the source."""
    newest: dict[str, Field] = {}
    for field in fields:
        rival = newest.get(field.source)
        if rival is None or not at_or_below(field.last, rival.last):
            newest[field.source] = field
    gone = [field.name for field in fields if hidden_but is not None and field.name not in hidden_but and _away(field, fields)]
    return [dataclasses.replace(field, visible=newest[field.source] is field and field.name != ROW_ID and field.name not in gone) for field in fields]
