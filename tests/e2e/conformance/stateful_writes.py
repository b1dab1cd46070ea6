"""Single random writes: what is drawn is a step, with `$uid TARGET$` and the like where only the server knows the value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from tests.e2e.conformance.cases import PATCHES, Step
from tests.e2e.conformance.stateful_kinds import KINDS, LABELS, Kind, sometimes

__all__ = [
    "NAMES",
    "NODES",
    "applies",
    "bindings",
    "creates",
    "deletes",
    "edits",
    "json_patches",
    "patches",
    "reads",
    "replaces",
    "scales",
]

NAMES = ("a", "b", "c")
NODES = ("m", "n")
_FINALIZERS = st.sampled_from([*[["example.org/held"]] * 4, ["example.org/b", "example.org/a"], [], ["bad"]])
_VALIDATION = sometimes(st.sampled_from(["Strict", "Warn", "Ignore", "Strict", "Warn", "Ignore", "Odd"]), among=4)
_DRY_RUN = sometimes(st.just("All"), among=8)
_ODD_METADATA: Sequence[dict[str, Any]] = (
    {"generation": 7},
    {"deletionTimestamp": "2024-01-01T00:00:00Z"},
    {"uid": "11111111-1111-1111-1111-111111111111"},
    {"creationTimestamp": "2024-01-01T00:00:00Z"},
    {"labels": {"x": "not a value"}},
    {"labels": {"-": "1"}},
    {"annotations": {"n": "1", "m": ""}},
    {"managedFields": []},
    {"nope": 1},
)


def creates(kinds: Sequence[Kind]) -> st.SearchStrategy[Step]:
    """POST of an object."""
    return st.sampled_from(kinds).flatmap(_create)


def replaces(kinds: Sequence[Kind]) -> st.SearchStrategy[Step]:
    """PUT of an object that was not read before, at its current, an old or no version."""
    return st.sampled_from(kinds).flatmap(_replace)


def edits(kinds: Sequence[Kind]) -> st.SearchStrategy[Step]:
    """PUT of what was read, changed a little."""
    return st.sampled_from(kinds).flatmap(_edit)


def patches(kinds: Sequence[Kind]) -> st.SearchStrategy[Step]:
    """Merge and strategic patches."""
    return st.sampled_from(kinds).flatmap(_patch)


def json_patches(kinds: Sequence[Kind]) -> st.SearchStrategy[Step]:
    """JSON patches of one to three operations."""
    return st.sampled_from(kinds).flatmap(_json_patch)


def applies(kinds: Sequence[Kind]) -> st.SearchStrategy[Step]:
    """Server-side apply by one of a few managers."""
    return st.sampled_from(kinds).flatmap(_apply)


def deletes(kinds: Sequence[Kind]) -> st.SearchStrategy[Step]:
    """DELETE of an object, now and then of those that a selector chooses."""
    return st.sampled_from(kinds).flatmap(_delete)


def reads(kinds: Sequence[Kind]) -> st.SearchStrategy[Step]:
    """GET of an object or of a list."""
    return st.sampled_from(kinds).flatmap(
        lambda kind: st.sampled_from(
            [*(f"{kind.collection}/{name}" for name in NAMES), *(f"{kind.collection}?{selector}" for selector in kind.selectors)]
        ).map(lambda target: Step("GET", target))
    )


def scales(kind: Kind) -> st.SearchStrategy[Step]:
    """What one does with the scale of an object."""
    return _scale(kind)


def bindings(kind: Kind) -> st.SearchStrategy[Step]:
    """Binding, and eviction."""
    return _bind(kind)


@st.composite
def _metadata(draw: st.DrawFn, kind: Kind) -> dict[str, Any]:
    """Metadata without a name."""
    metadata: dict[str, Any] = {}
    if draw(st.booleans()):
        metadata["labels"] = draw(LABELS)
    if finalizers := draw(sometimes(_FINALIZERS, among=5)):
        metadata["finalizers"] = finalizers
    if kind.collects and (owners := draw(sometimes(st.lists(_owner(), max_size=2), among=6))) is not None:
        metadata["ownerReferences"] = owners
    if odd := draw(sometimes(st.sampled_from(_ODD_METADATA), among=12)):
        metadata |= odd
    return metadata


@st.composite
def _owner(draw: st.DrawFn) -> dict[str, Any]:
    kind, name = KINDS[draw(st.sampled_from(["configmaps", "configmaps", "pods"]))], draw(st.sampled_from(NAMES[:2]))
    reference: dict[str, Any] = {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "name": name,
        "uid": f"$uid {kind.collection}/{name}$",
    }
    if draw(st.booleans()):
        reference["blockOwnerDeletion"] = draw(st.booleans())
    if draw(sometimes(st.just(1), among=4)):
        reference["controller"] = True
    return reference


@st.composite
def _body(draw: st.DrawFn, kind: Kind, name: str) -> dict[str, Any]:
    body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name, **draw(_metadata(kind))}}
    body |= draw(kind.content)
    if kind.status is not None and draw(sometimes(st.just(1), among=5)):
        body["status"] = draw(kind.status)
    return body


def _query(draw: st.DrawFn, target: str, **parameters: str | None) -> str:
    """`target` with the parameters that have a value, those that every write may have among them."""
    parameters = {"dryRun": draw(_DRY_RUN), "fieldValidation": draw(_VALIDATION)} | parameters
    query = "&".join(f"{name}={value}" for name, value in parameters.items() if value is not None)
    return f"{target}?{query}" if query else target


_MANAGER = sometimes(st.sampled_from(["m1", "m2"]), among=3)


@st.composite
def _create(draw: st.DrawFn, kind: Kind) -> Step:
    body = draw(_body(kind, draw(st.sampled_from(NAMES))))
    if draw(sometimes(st.just(1), among=20)):
        body["metadata"]["resourceVersion"] = "1"
    return Step("POST", _query(draw, kind.collection, fieldManager=draw(_MANAGER)), body)


@st.composite
def _replace(draw: st.DrawFn, kind: Kind) -> Step:
    target = f"{kind.collection}/{draw(st.sampled_from(NAMES))}"
    body = draw(_body(kind, target.rpartition("/")[2]))
    _version(draw, body["metadata"], target)
    return Step("PUT", _query(draw, _with_status(draw, kind, target), fieldManager=draw(_MANAGER)), body)


@st.composite
def _edit(draw: st.DrawFn, kind: Kind) -> Step:
    target = f"{kind.collection}/{draw(st.sampled_from(NAMES))}"
    change: dict[str, Any] = {"metadata": draw(_metadata(kind))}
    if draw(st.booleans()):
        change |= draw(kind.content)
    if kind.status is not None and draw(st.booleans()):
        change["status"] = draw(kind.status)
    if draw(sometimes(st.just(1), among=4)):
        change["metadata"]["finalizers"] = None
    if draw(sometimes(st.just(1), among=4)):
        _version(draw, change["metadata"], target)
    body = {"edited": {"apiVersion": kind.api_version, "kind": kind.name, **change}}
    return Step("PUT", _query(draw, _with_status(draw, kind, target), fieldManager=draw(_MANAGER)), body)


@st.composite
def _patch(draw: st.DrawFn, kind: Kind) -> Step:
    target = f"{kind.collection}/{draw(st.sampled_from(NAMES))}"
    how = "strategic" if kind.strategic is not None and draw(st.booleans()) else "merge"
    metadata = draw(_metadata(kind))
    removed = draw(
        st.sampled_from([None, None, "labels", "finalizers", "finalizers", "ownerReferences", "annotations", "managedFields"])
    )
    if removed:
        metadata[removed] = None
    if draw(sometimes(st.just(1), among=4)):
        metadata["labels"] = {"x": draw(st.sampled_from([None, "1", "2"]))}
    if draw(sometimes(st.just(1), among=5)):
        _version(draw, metadata, target)
    if how == "strategic" and draw(sometimes(st.just(1), among=4)):
        metadata["$deleteFromPrimitiveList/finalizers"] = ["example.org/held"]
    body: dict[str, Any] = {"metadata": metadata}
    if draw(st.booleans()):
        body |= draw(
            kind.strategic if how == "strategic" and kind.strategic is not None and draw(st.booleans()) else kind.content
        )
    if kind.status is not None and draw(sometimes(st.just(1), among=3)):
        body["status"] = draw(st.one_of(kind.status, st.none()))
    query = _query(draw, _with_status(draw, kind, target), fieldManager=draw(_MANAGER))
    return Step("PATCH", query, body, {"content_type": PATCHES[how]})


@st.composite
def _json_patch(draw: st.DrawFn, kind: Kind) -> Step:
    target = f"{kind.collection}/{draw(st.sampled_from(NAMES))}"
    places = {
        **kind.json_paths,
        "/metadata/labels": st.sampled_from([{"x": "1"}, {"x": "2"}, {}]),
        "/metadata/labels/x": st.sampled_from(["1", "2"]),
        "/metadata/finalizers": st.just(["example.org/held"]),
        "/metadata/finalizers/-": st.just("example.org/c"),
        "/metadata/finalizers/0": st.just("example.org/d"),
        "/metadata/annotations": st.just({"n": "2"}),
        "/metadata/name": st.sampled_from(NAMES),
        "/metadata/resourceVersion": st.sampled_from([f"$rv {target}$", f"$stale {target}$"]),
        "/metadata/uid": st.just(f"$uid {target}$"),
        "/nope": st.just(1),
    }
    operations = []
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(places)))
        verb = draw(st.sampled_from(["add", "add", "replace", "replace", "remove", "test", "copy", "move"]))
        operation: dict[str, Any] = {"op": verb, "path": path}
        if verb in ("add", "replace", "test"):
            operation["value"] = draw(places[path])
        elif verb != "remove":
            operation["from"] = draw(st.sampled_from(list(places)))
        operations.append(operation)
    query = _query(draw, _with_status(draw, kind, target), fieldManager=draw(_MANAGER))
    return Step("PATCH", query, operations, {"content_type": PATCHES["json"]})


@st.composite
def _apply(draw: st.DrawFn, kind: Kind) -> Step:
    name = draw(st.sampled_from(NAMES))
    target = f"{kind.collection}/{name}"
    body = draw(_body(kind, name))
    if draw(sometimes(st.just(1), among=8)):
        _version(draw, body["metadata"], target)
    body["metadata"].pop("deletionTimestamp", None)  # a dry run shows it
    manager, force = draw(st.sampled_from(["m1", "m2", "m2", "m3"])), draw(st.sampled_from([None, "true", "false"]))
    query = _query(draw, _with_status(draw, kind, target), fieldManager=manager, force=force)
    return Step("PATCH", query, body, {"content_type": PATCHES["apply"]})


@st.composite
def _delete(draw: st.DrawFn, kind: Kind) -> Step:
    options: dict[str, Any] = {}
    if draw(sometimes(st.just(1), among=6)):
        selector = draw(st.sampled_from(kind.selectors))
        return Step("DELETE", f"{kind.collection}?{selector}", options)
    target = f"{kind.collection}/{draw(st.sampled_from(NAMES))}"
    if draw(sometimes(st.just(1), among=4)):
        options["preconditions"] = draw(
            st.sampled_from(
                [
                    {"uid": f"$uid {target}$"},
                    {"uid": "00000000-0000-0000-0000-000000000000"},
                    {"resourceVersion": f"$rv {target}$"},
                    {"resourceVersion": f"$stale {target}$"},
                ]
            )
        )
    if grace := draw(sometimes(st.sampled_from([0, 1, 5, -1]), among=3)):
        options["gracePeriodSeconds"] = grace
    ways = ["Background", "Foreground", "Orphan", "Sideways"] if kind.collects else ["Background", "Sideways"]
    if way := draw(sometimes(st.sampled_from(ways), among=3)):
        options["propagationPolicy"] = way
    if draw(_DRY_RUN):
        options["dryRun"] = ["All"]
    if options:
        options |= {"apiVersion": "v1", "kind": "DeleteOptions"}
    return Step("DELETE", target, options or None)


@st.composite
def _scale(draw: st.DrawFn, kind: Kind) -> Step:
    # Applying a scale of a custom resource fails on the real server: it cannot convert it.
    target = f"{kind.collection}/{draw(st.sampled_from(NAMES))}"
    spec = draw(st.sampled_from([{"replicas": 0}, {"replicas": 3}, {"replicas": 3}, {"replicas": -1}, {}]))
    match draw(st.sampled_from(["GET", "PUT", "merge", "json"])):
        case "GET":
            return Step("GET", f"{target}/scale")
        case "PUT":
            return Step("PUT", _query(draw, f"{target}/scale", fieldManager=draw(_MANAGER)), {"edited": {"spec": spec}})
        case "json":
            body: Any = [{"op": "replace", "path": "/spec/replicas", "value": spec.get("replicas", 1)}]
            return Step("PATCH", f"{target}/scale", body, {"content_type": PATCHES["json"]})
        case _:
            body = {"spec": spec}
            return Step(
                "PATCH", _query(draw, f"{target}/scale", fieldManager=draw(_MANAGER)), body, {"content_type": PATCHES["merge"]}
            )


@st.composite
def _bind(draw: st.DrawFn, kind: Kind) -> Step:
    name = draw(st.sampled_from(NAMES))
    target = f"{kind.collection}/{name}"
    if draw(sometimes(st.just(1), among=4)):
        options = draw(st.sampled_from([{}, {"gracePeriodSeconds": 0}, {"dryRun": ["All"]}]))
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options}
        return Step("POST", f"{target}/eviction", body)
    metadata: dict[str, Any] = {"name": name}
    if draw(sometimes(st.just(1))):
        metadata |= draw(st.sampled_from([{"uid": f"$uid {target}$"}, {"annotations": {"n": "1"}}, {"labels": {"x": "1"}}]))
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"kind": "Node", "name": draw(st.sampled_from(NODES))},
    }
    return Step("POST", _query(draw, f"{target}/binding"), body)


def _with_status(draw: st.DrawFn, kind: Kind, target: str) -> str:
    return f"{target}/status" if kind.status is not None and draw(sometimes(st.just(1), among=3)) else target


def _version(draw: st.DrawFn, metadata: dict[str, Any], target: str) -> None:
    """Put in a version or a uid that must match, or neither."""
    metadata |= draw(
        st.sampled_from(
            [
                {},
                {"resourceVersion": f"$rv {target}$"},
                {"resourceVersion": f"$rv {target}$"},
                {"resourceVersion": f"$stale {target}$"},
                {"resourceVersion": "0"},
                {"resourceVersion": "x"},
                {"uid": f"$uid {target}$"},
                {"uid": "00000000-0000-0000-0000-000000000000"},
            ]
        )
    )
