"""The format of Athena's and Trino's own views: JSON in base64, in a comment, as the view's original text.

Written as Trino's Hive connector does (io.trino.plugin.hive.ViewReaderUtil; fields of io.trino.spi.connector.ConnectorViewDefinition),
with the four fields that Athena's own views have. Athena refuses a Hive view, Hive and Spark refuse this one: hence two objects.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from compactor.core.catalog.ddl import ViewDef
from compactor.core.catalog.dialect import presto_type

FLAG = "presto_view"
COMMENT = "Presto View"
EXPANDED = "/* Presto View */"
CATALOG = "awsdatacatalog"
"""Athena's name for the account's Glue catalog."""
_BEGIN, _END = "/* Presto View: ", " */"


def encoded(view: ViewDef) -> str:
    """Return the original text of a view."""
    columns = [{"name": column.name, "type": presto_type(column.type)} for column in view.columns]
    definition = {"originalSql": view.text, "catalog": CATALOG, "schema": view.database, "columns": columns}
    return f"{_BEGIN}{base64.b64encode(json.dumps(definition, ensure_ascii=False).encode()).decode()}{_END}"


def decoded(original: str) -> dict[str, Any] | None:
    """Return the JSON object in an original text, or None for any other text."""
    if not (original.startswith(_BEGIN) and original.endswith(_END)):
        return None
    try:
        definition = json.loads(base64.b64decode(original[len(_BEGIN) : -len(_END)], validate=True))
    except (binascii.Error, ValueError):
        return None
    return definition if isinstance(definition, dict) and isinstance(definition.get("originalSql"), str) else None
