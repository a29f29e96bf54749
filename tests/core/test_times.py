"""Times as text and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.core.model import times


@given(micros=st.integers(0, 4_000_000_000_000_000))
def test_microseconds_read_back_equal(micros: int) -> None:
    """Also as seconds, to the millisecond."""
    assert times.to_micros(times.from_micros(micros)) == micros
    assert times.to_seconds(times.from_seconds(micros // 1000 / 1000, "milliseconds")) == micros // 1000 / 1000


@pytest.mark.parametrize("text", ["2026-11-20T14:00:00Z", "2026-11-20 14:00", " 2026-11-20T15:00:00+01:00 ", "2026-11-20T14:00"])
def test_spellings_of_one_time(text: str) -> None:
    """Without a zone it is UTC."""
    assert times.from_seconds(times.to_seconds(text)) == "2026-11-20T14:00:00Z"


def test_what_is_no_time() -> None:
    """Raises ValueError."""
    with pytest.raises(ValueError, match="yesterday"):
        times.parse("yesterday")
