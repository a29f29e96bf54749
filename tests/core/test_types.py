"""Hive types: spelling, reading back, and the narrowest type that holds two."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.core.model import names, types
from tests.oracle.sizes import sized

SCALAR = st.sampled_from([(name,) for name in types.SCALARS]) | st.tuples(st.just("decimal"), st.integers(1, 38), st.just(0))
NAMES = st.lists(st.sampled_from(["a", "b", "c_1"]), min_size=1, max_size=3, unique=True)
TYPES: st.SearchStrategy[types.Type] = st.recursive(
    SCALAR,
    lambda inner: (
        st.tuples(st.just("array"), inner)
        | st.tuples(st.just("map"), SCALAR, inner)
        | NAMES.flatmap(lambda names: st.tuples(*(inner for _ in names)).map(lambda kinds: ("struct", tuple(zip(names, kinds)))))
    ),
    max_leaves=6,
)


@given(kind=TYPES, quote=st.booleans())
def test_a_type_reads_back_from_its_text(kind: types.Type, quote: bool) -> None:
    """`parse` is the inverse of `text`, with and without quotes."""
    assert types.parse(types.text(kind, quote)) == kind


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("BIGINT", ("bigint",)),
        ("integer", ("int",)),
        ("long", ("bigint",)),
        ("decimal", ("decimal", 10, 0)),
        ("decimal(12)", ("decimal", 12, 0)),
        ("decimal( 12 , 2 )", ("decimal", 12, 2)),
        ("map<string, array<int>>", ("map", ("string",), ("array", ("int",)))),
        ("struct<a:int, `odd name`:string>", ("struct", (("a", ("int",)), ("odd name", ("string",))))),
        ("struct<>", ("struct", ())),
    ],
)
def test_other_spellings_are_read(text: str, expected: types.Type) -> None:
    """Case, blanks, aliases."""
    assert types.parse(text) == expected


@pytest.mark.parametrize("text", ["", "number", "array", "array<int", "array<int>>", "map<int>", "int int", "struct<a:int", "decimal(x)"])
def test_what_is_no_type_is_refused(text: str) -> None:
    """With the text in the message, where it is one."""
    with pytest.raises(ValueError, match=r"not a type|invalid literal"):
        types.parse(text)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("tinyint", "smallint", "smallint"),
        ("int", "bigint", "bigint"),
        ("int", "double", "double"),
        ("smallint", "float", "float"),
        ("int", "float", "double"),
        ("float", "double", "double"),
        ("bigint", "double", None),
        ("bigint", "float", None),
        ("int", "decimal(12,2)", "decimal(12,2)"),
        ("int", "decimal(5,2)", "decimal(12,2)"),
        ("bigint", "decimal(10,2)", "decimal(21,2)"),
        ("bigint", "decimal(38,30)", None),
        ("decimal(10,2)", "decimal(12,4)", "decimal(12,4)"),
        ("decimal(10,2)", "decimal(10,4)", "decimal(12,4)"),
        ("decimal(38,0)", "decimal(38,10)", None),
        ("decimal(10,2)", "double", None),
        ("date", "timestamp", None),
        ("string", "int", None),
        ("boolean", "string", None),
        ("binary", "string", None),
        ("array<int>", "array<bigint>", "array<bigint>"),
        ("array<int>", "array<string>", None),
        ("array<int>", "int", None),
        ("map<string,int>", "map<string,bigint>", "map<string,bigint>"),
        ("map<string,int>", "map<int,int>", None),
        ("struct<a:int>", "struct<b:string>", "struct<a:int,b:string>"),
        ("struct<a:int,b:int>", "struct<a:bigint>", "struct<a:bigint,b:int>"),
        ("struct<a:int>", "struct<a:string>", None),
        ("struct<a:int>", "map<string,int>", None),
    ],
)
def test_the_widest_of_two_types(left: str, right: str, expected: str | None) -> None:
    """Without loss, or not at all; either way round (a struct's members keep the first one's order)."""
    one, other = types.parse(left), types.parse(right)
    result = types.widest(one, other)
    assert (types.text(result) if result else None) == expected
    assert sorted_members(types.widest(other, one)) == sorted_members(result)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("bigint", "double", "double"),
        ("decimal(38,0)", "double", "double"),
        ("decimal(9,2)", "double", None),
        ("bigint", "string", None),
        ("bigint", "decimal(38,0)", "decimal(38,0)"),
        ("array<bigint>", "array<double>", "array<double>"),
        ("struct<a:bigint>", "struct<a:double,b:string>", "struct<a:double,b:string>"),
    ],
)
def test_numbers_of_json_are_of_one_kind(left: str, right: str, expected: str | None) -> None:
    """A whole number and a fraction make a double, inside arrays and structs too."""
    for one, other in ((left, right), (right, left)):
        result = types.widest(types.parse(one), types.parse(other), numbers=True)
        assert sorted_members(result) == sorted_members(types.parse(expected) if expected else None)


def sorted_members(kind: types.Type | None) -> object:
    """A type without the order of its members."""
    if kind is None or kind[0] not in ("array", "map", "struct"):
        return kind
    if kind[0] == "struct":
        return ("struct", sorted((name, repr(sorted_members(member))) for name, member in kind[1]))
    return (kind[0], *(sorted_members(inner) for inner in kind[1:]))


@sized(300)
@given(kinds=st.permutations([(name,) for name in types.SCALARS if name != "binary"] + [("decimal", 38, 0), ("decimal", 12, 4)]))
def test_the_type_of_a_column_does_not_depend_on_the_order_of_its_writers(kinds: list[types.Type]) -> None:
    """Scalars without a common type become text: a column's type is the same whatever came first."""
    some = kinds[:3]

    def joined(*several: types.Type) -> types.Type:
        first, *rest = several
        for kind in rest:
            first = types.widest(first, kind) or ("string",)
        return first

    assert len({joined(*order) for order in itertools.permutations(some)}) == 1


@given(one=TYPES, other=TYPES)
def test_the_widest_type_holds_both(one: types.Type, other: types.Type) -> None:
    """It is a fixed point: joining it again with either changes nothing."""
    joined = types.widest(one, other)
    assert sorted_members(joined) == sorted_members(types.widest(other, one))
    assert types.widest(one, one) == one
    if joined is not None:
        assert types.widest(joined, one) == joined
        assert types.widest(joined, other) == joined


def test_names_inside_are_lowered_and_kept_apart() -> None:
    """Hive keeps no case; names equal but for case get a number."""
    kind = types.parse("array<struct<userId:int,userid:string,X:struct<Y:int>>>")
    assert types.text(types.lower_names(kind)) == "array<struct<userid:int,userid_2:string,x:struct<y:int>>>"


def test_a_taken_name_gets_the_first_free_number() -> None:
    """`name`, `name_2`, `name_3`."""
    assert [names.unique("a", taken) for taken in ([], ["a"], ["a", "a_2"], ["a_2"])] == ["a", "a_2", "a_3", "a"]
