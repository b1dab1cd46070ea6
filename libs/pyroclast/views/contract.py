"""The documents of `view.pyroclast.dev/v1`, which commands print with `-o json`.

Their fields are in `docs/reference/view-v1.schema.json`, against which tests hold what the commands print.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

API_VERSION: Final = "view.pyroclast.dev/v1"

Row: TypeAlias = Mapping[str, Any]


def document(kind: str, fields: Row) -> dict[str, Any]:
    """Return the JSON document of kind `kind` with these fields."""
    return {"apiVersion": API_VERSION, "kind": kind, **fields}
