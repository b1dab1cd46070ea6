"""How the API shows a difference that it refuses: the lines that changed, with their surroundings."""

from __future__ import annotations

import difflib
import json
from itertools import islice

from pyroclast_standalone.apiserver.documents.values import Json

__all__ = ["diff"]


def diff(old: Json, new: Json) -> str:
    """The unified difference between two values printed as JSON, without a heading."""
    before = json.dumps(old, indent=1, sort_keys=True).splitlines()
    after = json.dumps(new, indent=1, sort_keys=True).splitlines()
    lines = difflib.unified_diff(before, after, lineterm="", n=3)
    return "".join(f"{line}\n" for line in islice(lines, 2, None))
