"""Results as JSON: what commands print with `--output json`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class Plain:
    """A dataclass whose JSON object has its fields."""

    also: ClassVar[tuple[str, ...]] = ()
    """Properties that the JSON object has, too."""

    def to_json(self) -> dict[str, Any]:
        names = (*(field.name for field in dataclasses.fields(self)), *self.also)
        return {name: _plain(getattr(self, name)) for name in names}


def _plain(value: Any) -> Any:
    if isinstance(value, Plain):
        return value.to_json()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value
