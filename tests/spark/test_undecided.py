"""Empty arrays and objects inside of others, whose type a later record shows: in one run and in several, in any order, the rows are the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from compactor.core.model import types
from compactor.core.model.errors import InputRefused, SchemaRefused
from compactor.core.model.policy import Policy
from compactor.core.schema.writer import WriterField, WriterSchema
from compactor.flows.table import Table
from compactor.flows.verbs import rebuild_table
from compactor.spark.decode.frame import Frame
from compactor.spark.rows import json_writers
from compactor.spark.rows.conform import payload_writers
from tests.spark.lake import Lake
from tests.spark.test_csv import packed

pytestmark = [pytest.mark.spark, pytest.mark.slow]

VALUES: dict[str, Sequence[object]] = {
    "an_empty_array_in_an_object": ({"a": 1, "tags": []}, {"a": 2, "tags": ["x"]}),
    "alone_in_its_object": ({"tags": []}, {"tags": [1]}, {"a": 2}),
    "the_object_shows_another_member_first": ({"tags": []}, {"a": 2}, {"tags": [1]}),
    "an_empty_object": ({"a": 1, "p": {}}, {"a": 2, "p": {"b": 5}}),
    "members_that_are_all_null": ({"a": 1, "p": {"b": None}}, {"a": 2, "p": {"b": 5}}, {"a": None}),
    "of_the_column_itself": ({"b": None}, {"b": 5}, {"c": "x"}),
    "in_arrays_of_objects": ([{"a": 1, "q": []}, {"a": 2, "p": {}}], [{"q": [{"z": 1}], "p": {"y": "t"}}]),
    "arrays_of_them": ([{"q": []}, {}], [{"p": {"r": None}}], [{"q": [[1]], "p": {"r": "s"}}]),
    "empty_arrays_of_arrays": ({"d": [[]], "e": [{}]}, {"d": [[1, 2]], "e": [{"f": 1.5}]}),
    "names_in_capitals": ({"aB": 1, "qR": [], "sT": {"uV": []}}, {"aB": 2, "qR": [1], "sT": {"uV": [{"wX": 1}]}}),
    "never_shown": ({"a": 1, "q": [], "p": {"r": {}}}, {"a": 2}),
    "further_inside": ({"x": {"y": {"z": []}}}, {"x": {"y": None, "v": 1}}, {"x": {"y": {"z": [{"w": "1"}]}}}),
    "an_object_of_empty_texts_inside": ({"n": 1, "a": {"t": ""}}, {"a": {"t": "x"}}, {"n": 2, "a": {"u": ""}}),
    "arrays_of_empty_texts": ({"l": [""], "m": [{"t": ""}]}, {"l": ["x", ""], "m": [{"u": ""}]}),
    "an_empty_array_as_an_empty_object": ({"p": []}, {"p": {"x": 1}}, {"p": {"x": 2}}),
    "texts_that_look_like_them": ("x:{} ,{} [{}", ":[] ,[] [[]", ': "" ,"" [""'),
    "beside_empty_texts": ({"t": "", "q": []}, {"t": "", "q": [{"t": ""}]}),
}
"""Case → the values of its column in the first record, the second, the third. What a record lacks is null."""


def test_any_split_gives_the_same_rows(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """All records in one run; each in its own; in the opposite order. The records may have all columns, or those that are not null, as in large files."""
    records = [{"id": at, **{case: values[at] for case, values in VALUES.items() if at < len(values)}} for at in range(3)]
    rows = {}
    for full in (True, False):
        monkeypatch.setattr(json_writers, "INFERRED_HERE", json_writers.INFERRED_HERE if full else 0)
        given = [{**dict.fromkeys(VALUES), **record} for record in records] if full else records
        for way, runs in {"once": [given], "apart": [[each] for each in given], "back": [[each] for each in reversed(given)]}.items():
            spec = lake.spec(f"{way}_{full}", order_by=("id",))
            for hour, some in enumerate(runs):
                lake.land(spec, hour, some)
                lake.run(spec)
            rows[way, full] = sorted(lake.rows(spec), key=lambda row: row["id"])
            for case in VALUES:
                assert [row[case] for row in rows[way, full]] == [row[case] for row in rows["once", True]], (way, case)
            assert lake.problems(spec) == [], way
    first = rows["once", True]
    assert first[0]["names_in_capitals"] == {"ab": 1, "qr": [], "st": {"uv": []}}
    assert first[0]["members_that_are_all_null"] == {"a": 1, "p": {"b": None}}
    assert first[0]["never_shown"] == {"a": 1, "q": "[]", "p": {"r": "{}"}}


MIXED = (
    {"x": {"Zip": 1.25, "l": [{"k": 1}, {"k": 2.0}], "n": None}, "y": "", "z": "a"},
    {"x": {"Zip": "0123", "l": [{"k": "a"}], "n": [1]}, "y": {"aB": 1.5, "c": None}, "z": [1, 2], "more": 1},
    {"x": {"Zip": 5, "l": [{"k": True}], "n": [[1], [2]]}, "y": [1], "z": {"q": 1}, "again": 2},
    {"x": None, "y": 7, "z": None},
)
"""Values that only text can hold together: members of objects, and an empty text, an object, an array and a number."""
AS_TEXT = [
    ({"zip": "1.25", "l": [{"k": "1"}, {"k": "2.0"}], "n": None}, "", "a"),
    ({"zip": "0123", "l": [{"k": "a"}], "n": ["1"]}, '{"aB":1.5,"c":null}', "[1,2]"),
    ({"zip": "5", "l": [{"k": "true"}], "n": ["[1]", "[2]"]}, "[1]", '{"q":1}'),
    (None, "7", None),
]


def test_what_becomes_text_is_what_the_source_wrote_in_any_split(lake: Lake) -> None:
    """`to_string: evolve`: in one run and in several, in each order of arrival; a rebuild and `verify` agree. Without it the change is refused."""
    records = [{"id": at, **values} for at, values in enumerate(MIXED)]
    ways = {
        "once": [records],
        "apart": [[each] for each in records],
        "back": [[each] for each in records[::-1]],
        "mixed": [records[1::2], records[::2]],
    }
    for way, runs in ways.items():
        spec = lake.spec(way, order_by=("id",), policy=Policy(kinds=(("to_string", "evolve"),)))
        for hour, some in enumerate(runs):
            lake.land(spec, hour, some)
            lake.run(spec)
        rows = sorted(lake.rows(spec), key=lambda row: row["id"])
        assert [(row["x"], row["y"], row["z"]) for row in rows] == AS_TEXT, way
        assert lake.problems(spec) == [], way
        lake.now += 1
        assert rebuild_table(Table(lake.env, spec)).outcome == "published", way
    spec = lake.spec("refused", order_by=("id",))
    lake.land(spec, 0, records[:1])
    lake.run(spec)
    lake.land(spec, 1, records[1:2])
    with pytest.raises(
        SchemaRefused,
        match=r"`x.zip` changed from double to string.*`x.l\[\].k` changed.*`types: \{y: string, z: string\}`.*Set `on_schema_change: \{to_string: evolve\}`",
    ):
        lake.run(spec)


def test_a_member_in_another_case_is_the_same_member(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one run and in several; whether the driver has the records or a job looks for their names. Text that looks like names stays."""
    records = [
        {"id": 1, "a": {"userId": 1, "x": 'say "userid": 7'}, "l": [{"K.$": 1}], "t": {"Userid": 1}},
        {"id": 2, "a": {"userid": 2, "x": "z"}, "l": [{"k.$": 2}], "t": {"userid": 2}},
        {"id": 3, "a": {"USERID": 3, "x": "z"}, "l": [], "t": "USERID"},
    ]
    wanted = [({"userid": 1, "x": 'say "userid": 7'}, [{"k__": 1}]), ({"userid": 2, "x": "z"}, [{"k__": 2}]), ({"userid": 3, "x": "z"}, [])]
    for large in (False, True):
        monkeypatch.setattr(json_writers, "INFERRED_HERE", 0 if large else json_writers.INFERRED_HERE)
        for way, runs in {"once": [records], "apart": [[each] for each in records]}.items():
            spec = lake.spec(f"{way}_{large}", order_by=("id",), types=(("t", "string"),))
            for hour, some in enumerate(runs):
                lake.land(spec, hour, some)
                lake.run(spec)
            rows = sorted(lake.rows(spec), key=lambda row: row["id"])
            assert [(row["a"], row["l"]) for row in rows] == wanted, (way, large)
            assert [row["t"] for row in rows] == ['{"Userid":1}', '{"userid":2}', "USERID"], (way, large)
            assert lake.problems(spec) == [], (way, large)


def test_the_files_of_a_run_show_the_types_together(lake: Lake) -> None:
    """Spark reads files of some names, and unpacked copies, apart from the others. The same records in one file are of the same types."""
    records = [
        {"id": 1, "n": 1.5, "s": "abc", "a": ["x"], "o": {"k": 1}},
        {"id": 2, "n": 2, "s": 7, "a": [], "o": None},
        {"id": 3, "n": 3, "s": 5, "a": [1], "o": {}},
    ]
    lines = [f"{json.dumps(each)}\n".encode() for each in records]
    parts = {"a.json": lines[0], "b.json.zst": packed(lake, "zst", lines[1]), "c [1]: x.json": lines[2]}
    rows = []
    for name, files in {"together": {"all.json": b"".join(lines)}, "apart": parts}.items():
        spec = lake.spec(name, order_by=("id",))
        folder = Path(spec.landing) / "increment_2024030500"
        folder.mkdir(parents=True)
        for file, content in files.items():
            (folder / file).write_bytes(content)
        lake.run(spec)
        rows.append(sorted(lake.rows(spec), key=lambda row: row["id"]))
        assert lake.problems(spec) == []
    assert rows[0] == rows[1]
    assert [(row["n"], row["s"], row["a"]) for row in rows[1]] == [(1.5, "abc", ["x"]), (2.0, "7", []), (3.0, "5", ["1"])]


def test_frames_that_disagree_about_a_writer(lake: Lake) -> None:
    """Kafka's records may lie in files of several forms. What one frame lacks, the other shows; of two types none is taken silently."""

    def frame(**kinds: types.Type) -> Frame:
        fields = tuple(WriterField(name, kind, kind) for name, kind in kinds.items())
        return Frame(lake.spark.range(0), None, (WriterSchema("k1", fields),))

    number, text = ("double",), ("string",)
    (writer,) = payload_writers([frame(id=text, n=number), frame(id=text), frame(s=text)], lake.spec())
    assert {field.name: field.type for field in writer.fields} == {"id": text, "n": number, "s": text}
    with pytest.raises(InputRefused, match=r"table t: .* show different types of n\. Declare the column in `types:`"):
        payload_writers([frame(n=number), frame(n=text)], lake.spec())
