"""The JSON Schema of all documents, as one file: `python -m pyroclast.views.contract.schema PATH` writes it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from pyroclast.views.contract.explanations import Explanation, FlowTree, NodeExplanation, QueueExplanation
from pyroclast.views.contract.lists import LISTS
from pyroclast.views.documents import API_VERSION

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
PREFIX: Final = "#/$defs/"
SINGLE: Final = (Explanation, QueueExplanation, NodeExplanation, FlowTree)


def schema() -> dict[str, Any]:
    """Return the schema: a document has one of the kinds in `$defs`. Unknown fields are allowed, because later versions may add
    some.
    """
    records = [*SINGLE, *dict.fromkeys(LISTS.values())]
    _, components = msgspec.json.schema_components(records, ref_template=f"{PREFIX}{{name}}")
    lists = {f"{kind}List": _list_of(kind, record.__name__) for kind, record in LISTS.items()}
    kinds = [*(each.__name__ for each in SINGLE), *lists]
    return {
        "$schema": DRAFT,
        "title": API_VERSION,
        "oneOf": [{"$ref": f"{PREFIX}{kind}"} for kind in kinds],
        "$defs": dict(sorted({**components, **lists}.items())),
    }


def _list_of(kind: str, record: str) -> dict[str, Any]:
    fields = {
        "apiVersion": {"const": API_VERSION},
        "kind": {"const": f"{kind}List"},
        "items": {"type": "array", "items": {"$ref": f"{PREFIX}{record}"}},
    }
    return {"title": f"{kind}List", "type": "object", "properties": fields, "required": list(fields)}


def main(path: str) -> int:
    """Write the JSON Schema of the documents to `path`; return the exit status."""
    Path(path).write_text(json.dumps(schema(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
