"""Write what is made from the code: the schema of the run record, dashboards, pages of errors and command line. `make docs` calls it."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from compactor.core.results.record import FORMAT, Comparison, JobUsage, Phase, RunRecord
from scripts import cli_page, configuration_page, dashboards, errors_page

ROOT = Path(__file__).parents[1]


def run_record_schema() -> dict[str, Any]:
    """Return the JSON Schema of a run record, with the texts below the fields."""
    schema = TypeAdapter(RunRecord).json_schema(mode="serialization")
    for model, part in ((RunRecord, schema), *((each, schema["$defs"][each.__name__]) for each in (Phase, JobUsage, Comparison))):
        for declared in model.__mro__[:-1]:
            for name, text in field_texts(declared).items():
                if name in part["properties"]:
                    part["properties"][name]["description"] = text
                    part["properties"][name].pop("title", None)
        part["required"] = [field.name for field in dataclasses.fields(model)]  # type: ignore[arg-type]
        part["additionalProperties"] = False
        part["description"] = inspect.cleandoc(str(model.__doc__))
    schema["properties"]["format"]["const"] = FORMAT
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "compactor's run record"}


def field_texts(model: type[Any]) -> dict[str, str]:
    """Return the text below each field of a dataclass."""
    (definition,) = ast.parse(inspect.getsource(model)).body
    body = definition.body  # type: ignore[attr-defined]
    pairs = [(one, two) for one, two in itertools.pairwise(body) if isinstance(one, ast.AnnAssign)]
    return {one.target.id: " ".join(str(two.value.value).split()) for one, two in pairs if isinstance(two, ast.Expr)}  # type: ignore[union-attr,attr-defined]


FILES: dict[str, Callable[[], Any]] = {
    "docs/run-record.schema.json": run_record_schema,
    "docs/dashboards/grafana.json": dashboards.grafana,
    "terraform/dashboard.json.tftpl": dashboards.cloudwatch,
    **errors_page.FILES,
    **cli_page.FILES,
    **configuration_page.FILES,
}
"""File → function that returns its content: a text, or what JSON writes."""


def content(name: str) -> str:
    """Return the text of a file."""
    made = FILES[name]()
    return made if isinstance(made, str) else json.dumps(made, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for each in FILES:
        (ROOT / each).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / each).write_text(content(each), encoding="utf-8")
