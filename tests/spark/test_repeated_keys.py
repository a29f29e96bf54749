"""A wrong key makes few rows of many: the run says which key, and what identifies the rows instead."""

from __future__ import annotations

import pytest

from tests.spark.lake import Lake

pytestmark = pytest.mark.spark


def test_inserted_rows_of_one_key_are_a_warning(lake: Lake) -> None:
    """The first run makes two rows of twenty. With the right key the same files are no warning."""
    spec = lake.spec(key=("is_vip",))
    rows = [{"id": at, "seq": at, "is_vip": at % 2 == 0, "name": f"n{at % 5}", "op": "c"} for at in range(20)]
    lake.land(spec, 1, rows)
    (note,) = lake.run(spec).notes
    assert note == (
        "18 inserted rows had the key of another one and left no row: is_vip has 2 values in 20 inserted rows; unique in the sample: id. "
        "If these are different rows, correct `key:`"
    )
    right = lake.spec("right")
    lake.land(right, 1, rows)
    assert lake.run(right).notes == ()


def test_a_deleted_row_of_each_key_hides_no_wrong_key(lake: Lake) -> None:
    """Each delete accounts for one insert of its key. A key column may have the name of the count."""
    spec = lake.spec(key=("inserted",))
    rows = [{"id": at, "seq": at, "inserted": at % 2 == 0, "op": "c"} for at in range(20)]
    lake.land(spec, 1, [*rows, *({**row, "seq": 20, "op": "d"} for row in rows[:2])])
    (note,) = lake.run(spec).notes
    assert note.startswith("16 inserted rows had the key of another one and left no row: inserted has 2 values in ")


@pytest.mark.slow
def test_what_sources_send_for_one_row_is_no_warning(lake: Lake) -> None:
    """A snapshot beside the stream, events delivered again, and rows that are deleted and inserted again."""
    spec = lake.spec()
    sent = ["1 c a", "1 r b", "2 c a", "2 d a", "2 c b", "3 c a", "3 c a", "4 r a", "4 r a", "4 u b", "5 c a", "6 c a", "6 u b"]
    changes = [(int(id_), op, v) for id_, op, v in map(str.split, sent)]
    lake.land(spec, 1, [{"id": id_, "seq": at, "op": op, "v": v} for at, (id_, op, v) in enumerate(changes)])
    report = lake.run(spec)
    assert (report.counts["applied"], report.notes) == (6, ())


@pytest.mark.slow
def test_a_row_that_comes_again_after_its_delete_is_no_warning(lake: Lake) -> None:
    """A connector that crashed sends its insert again, beside the insert of a new row."""
    spec = lake.spec()
    old = {"id": 1, "seq": 1, "op": "c", "v": "a"}
    lake.land(spec, 1, [old, {**old, "seq": 2, "op": "d"}])
    lake.run(spec)
    lake.land(spec, 2, [old, {**old, "seq": 3, "v": "b"}])
    assert lake.run(spec).notes == ()
    lake.land(spec, 3, [{**old, "seq": at, "v": str(at)} for at in range(4, 7)])
    assert "2 inserted rows had the key of another one" in str(lake.run(spec).notes)
