"""Empty arrays and objects inside of others, whose type a later record shows: in one run and in several, in any order, the rows are the same."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from compactor.spark.rows import json_writers
from tests.spark.lake import Lake

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
