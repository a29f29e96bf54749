"""Erased keys, as the list engine knows them."""

from __future__ import annotations

import json
from typing import Any

from compactor.core.erasure.keys import hashed
from compactor.core.model.snapshot import Erased

SECRET = b"a secret of the list engine"


def gone(erased: Erased | None, key: tuple[Any, ...]) -> bool:
    """Whether a key is erased."""
    return erased is not None and hashed(json.dumps([str(value) for value in key]), SECRET) in erased.keys
