"""Which process runs a test, where several run tests."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

SPARK = ("tests/spark/", "tests/catalog/test_contract.py")
"""Where the tests on the shared session are."""


class OneProcess(LoadScopeScheduling):  # type: ignore[misc]
    """One scope for all tests on the shared session; every other test is a scope of its own. (xdist's groups do nothing under pytest 9.)"""

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if nodeid.startswith(SPARK) else nodeid
