"""Reconcile of a table with `delete_when`: the source keeps the rows that the table does not show."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from compactor.app.reconcile import _select
from compactor.core.model.errors import Refused
from compactor.core.reconcile.canonical import Columns
from tests.oracle.lake import table

COLUMNS = Columns((), ())


@pytest.mark.parametrize(
    ("delete_when", "where", "expected"),
    [
        (None, None, ""),
        (None, "a > 1", "a > 1"),
        ("status = 'gone'", None, "NOT coalesce((status = 'gone'), false)"),
        ("status = 'gone'", "binary status <> 'gone'", "binary status <> 'gone'"),
        ("status = 'gone'", "", ""),
    ],
)
def test_rows_that_the_table_s_condition_deletes_are_not_compared(delete_when: str | None, where: str | None, expected: str) -> None:
    """The source keeps them; unless somebody chooses the rows."""
    chosen: list[str] = []
    source = SimpleNamespace(select=lambda columns, where: chosen.append(where))
    _select(source, COLUMNS, table(delete_when=delete_when), where)
    assert chosen == [expected]


def test_a_condition_that_the_source_does_not_understand_is_refused_with_what_to_do() -> None:
    """It is Spark's SQL."""

    def select(columns: Columns, where: str) -> None:
        raise Refused('column "gone" does not exist')

    with pytest.raises(Refused, match=r'does not understand `delete_when: status = "gone"`.*column "gone" does not exist\. Set --where'):
        _select(SimpleNamespace(select=select), COLUMNS, table(delete_when='status = "gone"'), None)
