"""Evolution: how a table's schema follows its writers. For each writer's column:

1. `stored_column` finds the stored column that takes its values. `_compare` names their type and what changes; `_new` does without one.
2. `_decide` about each change by the table's policy.
3. `_apply` what is decided to the column.

The first rule that fits a writer's column and the stored column with the same source name applies:

| writer's column | stored column | result |
|---|---|---|
| a new name | - | added; rows of older writers read its default at that time |
| the same type, or one that fits into it | unchanged | unchanged |
| a wider type (int → bigint, decimal digits up, float → double) | widened: a new generation |
| a timestamp for dates, or the reverse | refused; with `date_to_timestamp: evolve` dates become midnights: a new generation |
| bytes for text, or the reverse | refused; with `string_to_bytes: evolve` text becomes UTF-8 bytes: a new generation |
| a struct with more, fewer or wider members | each member follows as a column does (`core/schema/nested_types.py`): a new generation |
| integers for fractions, or the reverse | double, if every integer is the same number then: a new generation |
| what only text can hold beside it (boolean → text, arrays of another depth; all in JSON without schema) | refused; `to_string: evolve`: text |
| a scalar for text | unchanged |
| another type (not a guessed one), after the column was removed or before it existed | a new column; the view shows the newest of a name |
| anything else | refused; increments stay in landing |
| another name, with the old one as an Avro alias, or in case only | the same column; the view shows the new name |
| no such column (removed) | kept; null in new rows |

This is `on_schema_change: evolve`. `core/schema/policy.py` has what the other policies refuse or leave out.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from compactor.core.model import names, types
from compactor.core.model.errors import SchemaRefused
from compactor.core.model.policy import EVOLVE, EXPLICIT, TO_STRING, Policy
from compactor.core.model.position import Position, after, at_or_below, latest, sort_key
from compactor.core.model.schema import RESERVED, Field, Schema, called
from compactor.core.model.spec import ROW_ID
from compactor.core.results.phrases import absent_key
from compactor.core.schema import nested_types, policy, stored_column
from compactor.core.schema.nested_types import TEXT
from compactor.core.schema.policy import Change, Decision
from compactor.core.schema.writer import WriterField, WriterSchema


@dataclass(frozen=True)
class Evolved:
    schema: Schema
    """The stored schema after these writers."""
    columns: dict[str, dict[str, str]]
    """Writer id → {source name: stored name}, columns of nulls included."""
    retyped: tuple[str, ...] = ()
    """Stored names of the columns whose type changed."""
    decisions: tuple[Decision, ...] = ()
    """The changes of an existing table, and what the table does about each."""


@dataclass(frozen=True)
class _Compared:
    """A writer's column beside the stored ones."""

    field: Field
    """The column that takes its values, or a new one."""
    type: types.Type | None
    """The type that can store the values of both, `marked` (`nested_types`); None if none can."""
    changes: tuple[Change, ...]


def evolve(schema: Schema | None, writers: Sequence[WriterSchema], key: Sequence[str], version: int, table: str, follow: Policy = EVOLVE) -> Evolved:
    """Return the stored schema that can store the rows of all `writers`.

    `schema`: the table's schema so far; None for a new table. `key`: in the source's spelling. `version`: the version that is being made.
    `follow`: the table's policy. Raises SchemaRefused, which carries the decisions, for a change that cannot or must not be followed.
    """
    before = {field.name: field for field in schema.fields} if schema else {}
    identity = {} if schema or key else {ROW_ID: Field(ROW_ID, ROW_ID, "string", visible=False)}
    run = _Run(before, {**before, **identity}, tuple(writers), key, version, table, follow)
    # the newest writer decides which column a name means; writers without Position come first
    for writer in sorted(writers, key=lambda w: (w.first is not None, sort_key(w.first or ()))):
        run.follow(writer)
    run.date_guessed()
    fields = run.fields.values()
    stored_key = key_columns(fields, key, table, schema)
    run.note(() if follow.patch_rows else _removed(before, fields, stored_key, follow))
    decisions = tuple(run.decisions.values())
    policy.check(table, decisions, follow)
    retyped = tuple(name for name, field in before.items() if run.fields[name].type != field.type)
    shown = _shown(fields, stored_key if follow.hides else None)
    generation = (schema.generation if schema else 1) + (1 if retyped else 0)
    evolved = Schema(tuple(shown), stored_key, generation, schema.registered if schema else None)
    return Evolved(evolved, {writer.id: run.names(writer) for writer in writers}, retyped, decisions)


@dataclass
class _Run:
    """The stored columns while they follow a run's writers, one writer after the other."""

    before: Mapping[str, Field]
    """Stored name → column, before the run; empty for a new table."""
    fields: dict[str, Field]
    """Stored name → column, so far."""
    writers: tuple[WriterSchema, ...]
    key: Sequence[str]
    version: int
    table: str
    policy: Policy
    columns: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)
    """Writer id → {source name: stored name}, without columns of nulls."""
    decisions: dict[tuple[str, str], Decision] = dataclasses.field(default_factory=dict)
    """(kind of change, column) → decision. Several writers may have the same change."""
    inferred: dict[str, bool] = dataclasses.field(default_factory=dict)
    """Stored name → whether the first writer with the column is JSON without schema."""
    guessed: set[str] = dataclasses.field(default_factory=set)
    """Stored names of the columns whose type some complete writer only guesses."""

    def follow(self, writer: WriterSchema) -> None:
        """Make the columns those after this writer."""
        self.columns[writer.id] = {}
        # of a column that only incomplete events have had, nothing shows which others there were
        others = [position for field in self.fields.values() if field.last is not None for position in (field.first, field.last)]
        for column in writer.fields:
            self._follow(column, writer, others)
        for name in writer.undecided if writer.whole else ():
            # a column with nulls only has no type, but it exists
            if of := stored_column.of_nulls(self.fields.values(), name):
                self.fields[of.name] = dataclasses.replace(of, last=latest([of.last, writer.last]))

    def _follow(self, column: WriterField, writer: WriterSchema, others: Sequence[Position | None]) -> None:
        explicit = _explicit_kinds(column, self.key)
        also = [kind for kind in explicit if self.policy.of(kind) == "evolve"]
        stored = stored_column.of_column(self.fields.values(), column, writer, others, self.writers, also)
        new = stored.name not in self.before if stored else not self.before
        if stored:
            grows = new or policy.action(self.policy, "added") != "leave out"
            compared = _compare(stored, column, writer, explicit, grows, column.name in self.key)
        else:
            compared = _new(self.fields.values(), column, writer, self.version)
        # text of JSON with a schema and without it has two meanings: dates and days, numbers and base64
        mixed = column.inferred != self.inferred.setdefault(compared.field.name, column.inferred)
        decided = _decide(compared, self.policy, new, mixed)
        self.note(decided)
        if compared.type is None:
            raise SchemaRefused(_no_type(compared, column, self.table), tuple(self.decisions.values()))
        actions = {decision.change.kind: decision.action for decision in decided}
        if not stored and "leave out" in actions.values():
            return
        renamed = any(change.kind == "renamed" for change in compared.changes) and actions.get("renamed", "rename") == "rename"
        field = _apply(compared.field, compared.type, column, writer, renamed, self.table)
        self.fields[field.name], self.columns[writer.id][column.name] = field, field.name
        if column.guessed and writer.whole:
            self.guessed.add(field.name)

    def note(self, decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            self.decisions.setdefault((decision.change.kind, decision.change.column), decision)

    def date_guessed(self) -> None:
        """Date a column whose type is guessed by the run's newest writer, if some new record has it.

        A source that leaves out nulls has as many writers as sets of columns. None of these columns is away after the run.
        """
        newest = latest([writer.last for writer in self.writers if writer.whole])
        for name in self.guessed:
            field, was = self.fields[name], self.before.get(name)
            if was is None or not at_or_below(_of_file(field.last), _of_file(was.last)):
                self.fields[name] = dataclasses.replace(field, last=latest([field.last, newest]))

    def names(self, writer: WriterSchema) -> dict[str, str]:
        """Return source name → stored name of a writer's columns, columns of nulls included."""
        nulls = {name: of.name for name in writer.undecided if (of := stored_column.of_nulls(self.fields.values(), name))}
        return {**nulls, **self.columns[writer.id]}


def _compare(field: Field, column: WriterField, writer: WriterSchema, explicit: Collection[str], grows: bool, of_key: bool) -> _Compared:
    """Return what a writer's column changes in a stored one. `explicit`: kinds of changes that a policy may follow; `grows`: see `nested_types`.

    `of_key`: whether the column is one of the key. Then whole numbers become no doubles, and nothing else text: other values may have several texts.
    """
    stored, given = nested_types.marked(types.parse(field.type), field.undecided), _marked(column)
    kind: types.Type | None
    if _is_array_text(stored, given, column) and not of_key:
        kind, changes = TEXT, [Change(TO_STRING, field.source, field.type, types.text(column.type))] if stored != TEXT else []
    else:
        # the text of what is inside would depend on types and engines, but for JSON without schema, which is read as the source wrote it
        text = column.inferred or (types.is_scalar(stored) and types.is_scalar(given))
        kind, changes = nested_types.joined(stored, given, field.source, not of_key, explicit, grows, text)
    if kind is not None and column.name not in (field.source, *field.formerly) and _is_newest(writer, field):
        changes.append(Change("renamed", column.name, field.source))
    return _Compared(field, kind, tuple(changes))


def _is_array_text(stored: types.Type, given: types.Type, column: WriterField) -> bool:
    """Return whether arrays are text as a whole: those of several depths, and PostgreSQL's text of an array in a column of text."""
    depth, other = types.depth(stored), types.depth(given)
    if column.inferred or depth == other or stored == nested_types.UNDECIDED:
        return False
    if column.item is not None and column.raw == TEXT:
        # those of one batch may have several depths
        return depth > 0 or types.is_scalar(stored)
    return depth > 0 < other


def _marked(column: WriterField) -> types.Type:
    """Return the type of a writer's column, marked where no value has shown it."""
    return types.stored_names(column.marked) if column.marked else column.type


def _new(fields: Collection[Field], column: WriterField, writer: WriterSchema, version: int) -> _Compared:
    """Return the new column that takes a writer's column, and what that changes."""
    name = names.unique(names.stored_name(column.name), [*RESERVED, *(field.name for field in fields)])
    kind, given = types.text(column.type), _marked(column)
    last = writer.last if writer.whole else None
    field = Field(name, column.name, kind, version, writer.first, last, column.default)
    same = stored_column.of_source(fields, column.name)
    if same:
        return _Compared(field, given, (Change("replaced", column.name, same[-1].type, kind),))
    older = "null in older rows" if column.default is None else f"older rows read {json.dumps(column.default, ensure_ascii=False)}"
    return _Compared(field, given, (Change("added", column.name, after=kind, detail=older),))


def _decide(compared: _Compared, follow: Policy, new: bool, mixed: bool) -> list[Decision]:
    """Return what the table does about each change. Of a column that is `new` in this run only what no type or no meaning can follow is a change.

    `mixed`: the run has the column in JSON without schema and with declared types.
    """
    decisions = [Decision(change, policy.action(follow, change.kind), compared.field.name) for change in compared.changes]
    followed = {*types.ON_REQUEST, "incompatible", *([TO_STRING] if mixed else [])}
    # text that may hold arrays and objects, as JSON, stays text
    changing = [each for each in decisions if each.action == "refuse" or (each.change.kind, each.change.before) != (TO_STRING, "string")]
    return [each for each in changing if not new or (each.action == "refuse" and each.change.kind in followed)]


def _no_type(compared: _Compared, column: WriterField, table: str) -> str:
    field, (change,) = compared.field, [change for change in compared.changes if change.kind == "incompatible"]
    inside = "" if change.column == field.source else f" ({change.sentence})"
    return (
        f"table {table}, column {field.source}: stored as {field.type}, the new data has {types.text(column.type)}, and no type can store both"
        f"{inside}. The increments stay in landing. {'' if inside else policy.declare([change])}Repair the producer, or rename the column."
    )


def _apply(field: Field, kind: types.Type, column: WriterField, writer: WriterSchema, renamed: bool, table: str) -> Field:
    """Return a column with a type, after a writer that has it. Raises SchemaRefused for a type that no file, or a default that no view, can have."""
    newest, (kind, undecided) = _is_newest(writer, field), nested_types.unmarked(kind)
    if "struct<>" in types.text(kind):
        raise SchemaRefused(
            f"table {table}, column {field.source}: its type is {types.text(kind)}, and Parquet has no struct without members. The increments stay "
            "in landing. Have the source leave out the empty record, or give it a field."
        )
    # an older writer with the column moves its beginning back; the default is that of the beginning
    earlier = writer.first is not None and at_or_below(writer.first, field.first)
    first, default = (writer.first, column.default) if earlier else (field.first, field.default)
    if default is not None and kind[0] in ("binary", "timestamp"):
        raise SchemaRefused(
            f"table {table}, column {field.source}: older rows show its default {default!r}, and no SQL that Spark, Hive and Trino all read has a "
            f"constant of type {kind[0]}. The increments stay in landing. Keep the column as it was, or give the new one another name."
        )
    default = types.constant(default, kind)
    # Spark and Hive call four bytes `float`, Trino `real`: no SQL for all has such a constant
    kind = ("double",) if kind == ("float",) and default is not None else kind
    comment = names.comment(column.doc) if column.doc and newest else field.comment
    applied = dataclasses.replace(field, type=types.text(kind), first=first, default=default, comment=comment, undecided=undecided)
    if writer.whole:
        # in JSON without schema a removed member looks like a null one
        gone = nested_types.lacking(kind, column.type) if newest and not column.inferred else field.gone
        applied = dataclasses.replace(applied, last=latest([field.last, writer.last]), gone=gone)
    if renamed:
        # the stored name never changes; the view uses the source's name
        applied = dataclasses.replace(applied, source=column.name, formerly=(*field.formerly, field.source))
    return applied


def _removed(before: Mapping[str, Field], fields: Collection[Field], key: Sequence[str], follow: Policy) -> Iterator[Decision]:
    """Decide about the columns, and members of structs, that the newest writer does not have any more."""
    newest_before, newest = (latest([field.last for field in each]) for each in (before.values(), fields))
    action = policy.action(follow, "removed")
    for field in fields:
        was = before.get(field.name)
        if was is None or not was.visible:
            continue
        newly = not _away(was, newest_before) and _away(field, newest)
        if newly and field.name not in key and not any(other.source == field.source and other is not field for other in fields):
            yield Decision(Change("removed", field.source, before=field.type), action, field.name)
        members = nested_types.paths(types.parse(was.type))
        for path in field.gone:
            if path in members and path not in was.gone:
                # a view can hide columns, but no members of structs
                change = Change("removed", f"{field.source}{path}", before=types.text(members[path]))
                yield Decision(change, "keep" if action == "hide" else action, field.name)


def _is_newest(writer: WriterSchema, field: Field) -> bool:
    """Return whether no writer of a stored column was newer."""
    return latest([field.last, writer.last]) == writer.last


def _away(field: Field, newest: Position | None) -> bool:
    """Return whether a column is missing from the newest event, which has other columns. `newest`: where any column was written last."""
    return after(newest, field.last)


def _of_file(position: Position | None) -> Position | None:
    """Return a Position without block and row: where a record of JSON lies depends on what is read beside its file."""
    return position and position[:-2]


def _explicit_kinds(column: WriterField, key: Sequence[str]) -> list[str]:
    """Return the kinds in EXPLICIT that may be followed for a column.

    A key's text stays text. Text in JSON without schema may be bytes in any encoding.
    """
    return [kind for kind in EXPLICIT if kind != "string_to_bytes" or not (column.name in key or column.inferred)]


def key_columns(fields: Collection[Field], key: Sequence[str], table: str, before: Schema | None) -> tuple[str, ...]:
    """Return the stored names of the key columns among `fields`. Raises SchemaRefused for another key than that of `before`."""
    stored = tuple(_key_column(fields, name, table, before) for name in key) or (ROW_ID,)
    if twice := [name for name, column in zip(key, stored) if stored.count(column) > 1]:
        raise SchemaRefused(f"table {table}: {' and '.join(twice)} in `key` are one column of the data; remove one.")
    if before and {*stored} != {*before.key}:
        was, now = (", ".join(names_) if names_ != (ROW_ID,) else "none" for names_ in (before.key, stored))
        raise SchemaRefused(
            f"table {table}: expected the key ({was}), by which its rows are stored, found ({now}). A key never changes in place. Set `key:` to the "
            f"old key, or rebuild the table from its archive with the new one: compactor rebuild {table} --accept-differences"
        )
    return before.key if before else stored


def _key_column(fields: Collection[Field], name: str, table: str, before: Schema | None) -> str:
    # the key stays what it is, whatever column has its name now
    column = called(name, [field for field in fields if before and field.name in before.key]) or called(name, fields)
    if column is None:
        names_ = ", ".join(field.source for field in fields) or "none"
        members = {field.source: nested_types.paths(types.parse(field.type)) for field in fields}
        around = next((column for column, paths in members.items() if {f".{name.lower()}", f"[].{name.lower()}"} & {*paths}), None)
        raise SchemaRefused(f"table {table}: the data has no key column {name!r}; it has the columns {names_}; {absent_key(name, around)}.")
    if types.parse(column.type)[0] in ("float", "double", "array", "map", "struct"):
        change = Change("incompatible", name, before.field(column.name).type, column.type) if before and column.name in before.key else None
        decisions = (Decision(change, "refuse", column.name),) if change else ()
        raise SchemaRefused(
            f"table {table}: key column {name!r} has the type {column.type}, whose equality differs between engines. "
            f"{policy.declare([change]) if change else 'Choose another key, or declare its type in `types:`.'}".rstrip(),
            decisions,
        )
    return column.name


def _shown(fields: Collection[Field], hidden_but: Sequence[str] | None) -> list[Field]:
    """Return the columns with their visibility. The view shows the newest column of each source name.

    With `hidden_but` (the key) it also hides every other column that the source has removed.
    """
    newest: dict[str, Field] = {}
    for field in (field for field in fields if field.name != ROW_ID):
        rival = newest.get(field.source)
        if rival is None or not at_or_below(field.last, rival.last):
            newest[field.source] = field
    last = latest([field.last for field in fields])
    gone = [field.name for field in fields if hidden_but is not None and field.name not in hidden_but and _away(field, last)]
    hidden = {*gone, *(field.name for field in fields if "" in field.undecided)}
    return [dataclasses.replace(field, visible=newest.get(field.source) is field and field.name not in hidden) for field in fields]
