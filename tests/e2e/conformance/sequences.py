"""Random sequences of writes, and the case that carries one out under a watch and lists what is left."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.e2e.conformance.cases import PATCHES, Case, Step

__all__ = ["Operation", "case_of", "operations"]

Operation = Step

_NAMES = ("a", "b", "c")
_KINDS = {"configmaps": ("v1", "ConfigMap"), "conf.example.org/v1/widgets": ("conf.example.org/v1", "Widget")}
_VALUES = st.sampled_from(["1", "2", "3"])
_LABELS = st.dictionaries(st.sampled_from(["x", "y"]), _VALUES, max_size=2)


def operations() -> st.SearchStrategy[Operation]:
    """One write to one of a few objects."""
    return st.sampled_from(list(_KINDS)).flatmap(
        lambda kind: st.one_of([_of(kind, verb) for verb in ("POST", "PATCH", "DELETE")])
    )


def case_of(number: int, sequence: list[Operation]) -> Case:
    """The case that carries out `sequence`."""
    steps = []
    for index, kind in enumerate(_KINDS):
        steps.append(Step("GET", kind, options={"save": {f"rv{index}": "metadata.resourceVersion"}, "quiet": True}))
        steps.append(Step("watch", f"{kind}?watch=1&resourceVersion=$rv{index}$&timeoutSeconds=60", options={"as": kind}))
    steps += sequence
    for kind in _KINDS:
        steps.append(Step("GET", kind))
        steps.append(Step("events", kind, options={"within": 0.5, "count": 1_000}))
    return Case(f"sequence {number}", (), tuple(steps), "random")


@st.composite
def _of(draw: st.DrawFn, kind: str, verb: str) -> Operation:
    name = draw(st.sampled_from(_NAMES))
    match verb:
        case "POST":
            return Step("POST", kind, _object(draw, kind, name))
        case "DELETE":
            options = draw(st.sampled_from([None, {}, {"propagationPolicy": "Background"}, {"gracePeriodSeconds": 0}]))
            return Step("DELETE", f"{kind}/{name}", options)
        case _:
            return _patch(draw, kind, name)


def _object(draw: st.DrawFn, kind: str, name: str) -> dict[str, Any]:
    api_version, kind_name = _KINDS[kind]
    metadata: dict[str, Any] = {"name": name, "labels": draw(_LABELS)}
    if draw(st.booleans()):
        metadata["finalizers"] = ["example.org/held"]
    return {"apiVersion": api_version, "kind": kind_name, "metadata": metadata, **_content(draw, kind)}


def _content(draw: st.DrawFn, kind: str) -> dict[str, Any]:
    if kind == "configmaps":
        return {"data": draw(st.dictionaries(st.sampled_from(["p", "q"]), _VALUES, min_size=1, max_size=2))}
    spec: dict[str, Any] = {"color": draw(st.sampled_from(["red", "blue", "pink"]))}
    if draw(st.booleans()):
        spec["replicas"] = draw(st.sampled_from([0, 5, 101]))
    if draw(st.booleans()):
        spec["parts"] = [{"name": part} for part in draw(st.lists(st.sampled_from(["m", "n"]), max_size=2))]
    return {"spec": spec}


def _patch(draw: st.DrawFn, kind: str, name: str) -> Operation:
    how = draw(st.sampled_from(["merge", "json", "apply"]))
    target = f"{kind}/{name}"
    match how:
        case "merge":
            metadata = draw(st.sampled_from([{}, {"finalizers": None}, {"labels": {"x": None}}, {"labels": {"y": "9"}}]))
            body: Any = {"metadata": metadata, **_content(draw, kind)}
        case "json":
            path = "/data/p" if kind == "configmaps" else "/spec/color"
            operation = draw(st.sampled_from(["add", "replace", "test"]))
            body = [{"op": operation, "path": path, "value": draw(st.sampled_from(["red", "blue"]))}]
        case _:
            body = _object(draw, kind, name)
            manager, force = draw(st.sampled_from(["m1", "m2"])), draw(st.sampled_from(["true", "false"]))
            target += f"?fieldManager={manager}&force={force}"
    return Step("PATCH", target, body, {"content_type": PATCHES[how]})
