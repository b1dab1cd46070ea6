"""The recordings of the original beside the project: running their cases against a cluster, and comparing what comes out."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from pyroclast.api import keys
from pyroclast.api import waiting_reasons as pending

RECORDED = Path(__file__).parents[4] / "shared" / "recorded"
ORIGINAL = RECORDED / "original"

SCHEDULER = """\
actions: "enqueue, allocate, backfill, reclaim, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
  - name: sla
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
  - name: network-topology-aware
"""
"""The configuration with which the original was recorded."""

AT_ONCE = 4
"""Cases under way at the same time: each waits most of its time."""


def names() -> list[str]:
    """The recorded cases."""
    return sorted(path.stem for path in ORIGINAL.glob("*.json"))


def answered(kubeconfig: Path, folder: Path, only: str = "*", *, seconds: float) -> None:
    """Run the cases that match `only`; `folder` gets a file for each. The folder's own program runs them."""
    command = [sys.executable, str(RECORDED / "record.py"), "run", "--kubeconfig", str(kubeconfig), "--out", str(folder)]
    options = ["--only", only, "--par", str(AT_ONCE)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stderr


def difference(name: str, folder: Path) -> str | None:
    """The first difference between the original's answers to a case and ours; None: there is none."""
    theirs, ours = _read(ORIGINAL / f"{name}.json"), _read(folder / f"{name}.json")
    for mine, other in zip(ours.get("steps", ()), theirs["steps"], strict=False):
        if mine.get("code") == 422 and other.get("code") == 400 and "reason" not in other:
            mine.pop("reason", None)  # what may be more in a refusal about fields
    for answer in (ours, theirs):
        _without_causes(answer)
    _without_own_annotations(ours)
    told = "Job Warning PodGroupPending"
    events, said = (each.get("final", {}).get("events:reasons", []) for each in (theirs, ours))
    if told in said and told not in events and "PodGroup Normal Unschedulable" in events:
        said.remove(told)  # a Job that its queue does not let in says so here; the original's says nothing
    found: str | None = _recorder().differ(theirs, ours)
    return found


def value_at(name: str, folder: Path, path: str) -> Any:
    """What stands at a path, as `final.pods.0.retry`, in our answers to a case; a backslash goes before a dot inside a name."""
    value: Any = _read(folder / f"{name}.json")
    for part in re.split(r"(?<!\\)\.", path):
        part = part.replace("\\.", ".")
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


def _read(path: Path) -> dict[str, Any]:
    case: dict[str, Any] = json.loads(path.read_text())
    case.pop("bug", None)
    _drop_tokens(case)
    return case


def _without_causes(value: object) -> None:
    """Take out what conditions say here beyond the original: the summary behind its sentence, and the cause of a PodGroup that is
    not let in, of which the original says nothing.
    """
    if isinstance(value, dict):
        if isinstance(value.get("conditions"), list):
            value["conditions"] = [each for each in value["conditions"] if each.get("reason") not in set(pending.PendingReason)]
        if isinstance(value.get("message"), str):
            value["message"] = pending.parted(value["message"])[0]
        for each in value.values():
            _without_causes(each)
    elif isinstance(value, list):
        for each in value:
            _without_causes(each)


def _without_own_annotations(value: object) -> None:
    """Take out who submitted what, and why a PodGroup waits: of these the original says nothing."""
    if isinstance(value, dict):
        annotations = value.get("annotations")
        if isinstance(annotations, dict):
            found = [annotations.pop(key, None) for key in (keys.SUBMITTED_BY, keys.WAITING, keys.WAITS_FOR_TASK)]
            if any(found) and not annotations and "name" in value:
                del value["annotations"]  # of an object only what is there is recorded, of an answer everything
        for each in value.values():
            _without_own_annotations(each)
    elif isinstance(value, list):
        for each in value:
            _without_own_annotations(each)


def _drop_tokens(value: object) -> None:
    """Take the tokens out of all pods: recorded on a server that mounts none; ours does where its admission plugin is on."""
    if isinstance(value, dict):
        if isinstance(value.get("containers"), list):
            _drop_token(value)
        _drop_all(value.values())
    elif isinstance(value, list):
        _drop_all(value)


def _drop_all(values: Iterable[object]) -> None:
    for value in values:
        _drop_tokens(value)


def _drop_token(spec: dict[str, Any]) -> None:
    for holder, field in [(spec, "volumes"), *((each, "volumeMounts") for each in _containers(spec))]:
        kept = [item for item in holder.pop(field, ()) if not item["name"].startswith("kube-api-access-")]
        if kept:
            holder[field] = kept
    for key in ("serviceAccount", "serviceAccountName"):
        spec.pop(key, None)


def _containers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [container for field in ("containers", "initContainers") for container in spec.get(field, ())]


def _recorder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("record", RECORDED / "record.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
