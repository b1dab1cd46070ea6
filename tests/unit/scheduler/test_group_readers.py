"""The readers of groups: one record, whichever API described it."""

from __future__ import annotations

import ast
from pathlib import Path

import pyroclast_scheduler
from pyroclast_scheduler.cache.group_readers import volcano
from tests.scenarios import objects

_BEHIND = ("actions", "eviction", "model", "placement", "plugins", "session", "cycle.py")
_KINDS = {"PodGroup", "PodGroupSpec", "PodGroupStatus", "PodGroupCondition", "POD_GROUPS", "NATIVE_POD_GROUPS"}
_ALIASED = {"PodGroupStatus", "PodGroupCondition"}  # by model/groups.py, as the words for what a scheduler says of a group


def _named(source: Path) -> set[str]:
    """The kinds of either API that a module names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Attribute) and node.attr in _KINDS:
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom):
            found.update(alias.name for alias in node.names if alias.name in _KINDS)
        elif isinstance(node, ast.Attribute) and node.attr.startswith("NativePodGroup"):
            found.add(node.attr)
    return found


def test_no_module_that_decides_knows_either_kind():
    root = Path(pyroclast_scheduler.__file__).parent
    sources = [path for part in _BEHIND for path in ([root / part] if part.endswith(".py") else (root / part).rglob("*.py"))]
    named = {str(path.relative_to(root)): found for path in sources if (found := _named(path))}
    assert named == {"model/groups.py": _ALIASED}


def test_a_group_of_volcano_is_written_down_as_it_was_read():
    record = objects.pod_group(["j", "q", 2, {"annotations": {"a": "b"}}])
    group = volcano.group_of(record)
    assert (group.key, group.spec.min_member, group.spec.queue) == ("t/j", 2, "q")
    assert volcano.record_of(group) == record
