"""How much unusable input stops a table."""

from __future__ import annotations

import pytest

from compactor.core.sources.quarantine import SHARE_MIN, Limits, Unusable

CASES = {
    "nothing is unusable": (Limits(), (0, 100), (0, 3), None),
    "a README and a cut file among three": (Limits(), (0, 100), (2, 3), None),
    "two of three records": (Limits(), (2, 3), (0, 1), None),
    "all files": (Limits(), (0, 0), (1, 1), "all landed files or records are unusable"),
    "all files, again": (Limits(again=True), (0, 0), (1, 1), "all files or records from quarantine are unusable"),
    "all records": (Limits(), (2, 2), (0, 1), "all landed files or records are unusable"),
    "nine of ten": (Limits(), (SHARE_MIN - 1, SHARE_MIN), (0, 1), None),
    "more than half of many records": (Limits(), (SHARE_MIN, SHARE_MIN + 1), (0, 1), "10 of 11 records are unusable; the limit is 50 %"),
    "more than half of many files": (Limits(), (0, 100), (SHARE_MIN, SHARE_MIN + 1), "10 of 11 files are unusable; the limit is 50 %"),
    "half of many records": (Limits(), (SHARE_MIN, 2 * SHARE_MIN), (0, 1), None),
    "a share of zero counts from the first": (Limits(share=0.0), (1, 100), (0, 1), "1 of 100 records are unusable; the limit is 0 %"),
    "a number counts from the first": (Limits(rows=0), (1, 100), (0, 1), "1 records or files are unusable; the limit is 0"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_table_stops_where_its_limits_say(case: str) -> None:
    """A share of a few records or files is no share: it counts from SHARE_MIN of them on."""
    limits, (records, read), (files, inputs), expected = CASES[case]
    problem = limits.problem([Unusable("a.json", "is not JSON", 1)] * bool(records + files), records, read, files, inputs)
    assert (problem is None) is (expected is None)
    assert problem is None or problem.startswith(str(expected))
    assert problem is None or ("stay in quarantine" if limits.again else "stay in landing") in problem
