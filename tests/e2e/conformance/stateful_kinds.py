"""The kinds that the random sequences write, and what is drawn for their objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

__all__ = ["KINDS", "LABELS", "Kind", "definition", "sometimes"]

_DIGIT = st.sampled_from(["1", "2", "3"])
LABELS = st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", "2"]), max_size=2)


def sometimes(strategy: st.SearchStrategy[Any], *, among: int = 3) -> st.SearchStrategy[Any]:
    """`None`, and once in `among` times something of `strategy`."""
    return st.integers(1, among).flatmap(lambda drawn: strategy if drawn == 1 else st.none())


def _present(fields: Mapping[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """A mapping with some of the fields."""
    return st.fixed_dictionaries({}, optional=dict(fields))


@st.composite
def _odd(draw: st.DrawFn, sound: st.SearchStrategy[dict[str, Any]], *odd: Mapping[str, Any]) -> dict[str, Any]:
    """Something of `sound`, once in a while with one of the `odd` fields instead of its own."""
    return {**draw(sound), **(draw(sometimes(st.sampled_from(odd), among=6)) or {})}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind: `content` is drawn for what is beside the metadata, `json_paths` are where JSON patches strike.

    `selectors` are what watches and lists choose objects by, and `marker` has an object that all of them choose.
    """

    collection: str
    api_version: str
    name: str
    content: st.SearchStrategy[dict[str, Any]]
    marker: Mapping[str, Any]
    json_paths: Mapping[str, st.SearchStrategy[Any]]
    status: st.SearchStrategy[dict[str, Any]] | None = None
    selectors: tuple[str, ...] = ("labelSelector=x%3D1", "labelSelector=x+notin+(2)")
    strategic: st.SearchStrategy[dict[str, Any]] | None = None
    is_scaled: bool = False
    is_bound: bool = False
    collects: bool = True

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


def definition() -> dict[str, Any]:
    """The definition of the custom kind."""
    document: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "stateful_kinds.yaml").read_text())
    return document


_DATA = st.dictionaries(st.sampled_from(["p", "q"]), _DIGIT, max_size=2)
_CONFIG = _odd(
    _present(
        {
            "data": _DATA,
            "binaryData": st.just({"b": "AQ=="}),
            "immutable": sometimes(st.just(True), among=6).map(bool),
        }
    ),
    {"data": {"!": "1"}},
    {"data": {"p": 1}},
    {"data": {"p": None}},
    {"binaryData": {"p": "AQ=="}},
    {"binaryData": {"b": "not base64"}},
    {"nope": "unknown"},
)
_SECRET = _present(
    {
        "data": st.sampled_from([{"p": "AQ=="}, {"q": "Ag=="}, {"p": ""}, {"p": "!"}]),
        "stringData": st.sampled_from([{"p": "1"}, {"q": "2", "r": "3"}]),
        "type": st.sampled_from(["Opaque", "example.org/t", "kubernetes.io/basic-auth"]),
        "immutable": sometimes(st.just(True), among=6).map(bool),
    }
)
_LEASE = st.fixed_dictionaries(
    {
        "spec": _present(
            {
                "holderIdentity": st.sampled_from(["one", "two", ""]),
                "leaseDurationSeconds": st.sampled_from([1, 5, 2, 6, 1, 5, 0, -1, "5"]),
                "leaseTransitions": st.sampled_from([0, 3, 0, 3, -1]),
                "renewTime": st.sampled_from(
                    [*["2024-01-01T00:00:00.000000Z"] * 6, "2024-01-01T00:00:00Z", "2024-01-01T00:00:01.5Z", "x"]
                ),
                "strategy": st.sampled_from(["OldestEmulationVersion"]),
            }
        )
    }
)

_ENV = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from(["A", "B"]), "value": _DIGIT}), max_size=2, unique_by=lambda env: env["name"]
)
_PORTS = st.lists(
    st.fixed_dictionaries(
        {"containerPort": st.sampled_from([1, 2])}, optional={"name": st.sampled_from(["web", "ssh"]), "protocol": st.just("UDP")}
    ),
    max_size=2,
)
_CONTAINER = st.fixed_dictionaries(
    {"name": st.sampled_from(["c", "c", "d"]), "image": st.sampled_from(["i", "j:1"])},
    optional={
        "env": _ENV,
        "ports": _PORTS,
        "resources": st.sampled_from([{"requests": {"cpu": "1"}}, {"limits": {"memory": "1Gi"}}, {"requests": {"cpu": "1000m"}}]),
        "command": st.sampled_from([["sleep", "5"], []]),
        "imagePullPolicy": st.sampled_from(["Always", "Never", "Always", "Never", "Maybe"]),
    },
)
_POD_SPEC = st.fixed_dictionaries(
    {"containers": st.lists(_CONTAINER, min_size=1, max_size=2, unique_by=lambda container: container["name"])},
    optional={
        "restartPolicy": st.sampled_from(["Always", "Never", "Always", "Never", "OnFailure", "Sometimes"]),
        "nodeSelector": st.sampled_from([{"a": "1"}, {}]),
        "schedulingGates": st.sampled_from([[{"name": "example.org/g"}], []]),
        "activeDeadlineSeconds": st.sampled_from([6, 5, 6, 5, 0]),
        "terminationGracePeriodSeconds": st.sampled_from([0, 5, 5, 6, -1]),
        "tolerations": st.sampled_from([[{"key": "k", "operator": "Exists"}], [{"key": "k", "effect": "NoSchedule"}], []]),
        "volumes": st.sampled_from([[{"name": "v", "emptyDir": {}}], [{"name": "v", "configMap": {"name": "a"}}]]),
        "hostNetwork": st.just(True),
    },
)
_POD_STATUS = _present(
    {
        "phase": st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
        "conditions": st.lists(
            st.fixed_dictionaries(
                {"type": st.sampled_from(["Ready", "example.org/c"]), "status": st.sampled_from(["True", "False"])}
            ),
            max_size=2,
            unique_by=lambda condition: condition["type"],
        ),
        "message": _DIGIT,
        "podIP": st.sampled_from(["1.2.3.4", "1.2.3.5", "1.2.3.4", "not an address"]),
        "nominatedNodeName": st.just("n"),
    }
)
_TEMPLATE = st.fixed_dictionaries(
    {"template": st.fixed_dictionaries({"metadata": _present({"labels": LABELS}), "spec": _POD_SPEC})}
)
_ITEM = st.fixed_dictionaries(
    {"name": st.sampled_from(["c", "d"])}, optional={"image": st.just("k"), "env": _ENV, "$patch": st.just("delete")}
)
_STRATEGIC_SPEC = st.fixed_dictionaries(
    {},
    optional={
        "containers": st.lists(_ITEM, min_size=1, max_size=2),
        "$setElementOrder/containers": st.sampled_from([[{"name": "d"}, {"name": "c"}], [{"name": "c"}]]),
        "tolerations": st.just([{"key": "z", "operator": "Exists"}]),
        "nodeSelector": st.sampled_from([None, {"a": None}, {"$patch": "replace", "b": "2"}]),
        "activeDeadlineSeconds": st.sampled_from([None, 4]),
        "volumes": st.sampled_from(
            [[{"$patch": "delete", "name": "v"}], [{"name": "v", "$retainKeys": ["name", "emptyDir"], "emptyDir": {}}]]
        ),
    },
)

_PARTS = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from(["m", "n"])}, optional={"count": st.integers(1, 3), "note": _DIGIT}),
    max_size=2,
)
_GAUGE = st.fixed_dictionaries(
    {
        "spec": _present(
            {
                "color": st.sampled_from(["red", "blue", "green", "red", "blue", "green", "pink"]),
                "replicas": st.sampled_from([0, 5, 3, None, 2, 0, 5, -1, "2"]),
                "low": st.integers(1, 2),
                "high": st.integers(1, 3),
                "frozen": sometimes(st.just(True), among=6).map(bool),
                "port": st.sampled_from([8, "web", 8, "web", 8, "web", 1.5]),
                "parts": _PARTS,
                "tags": st.sampled_from([[], ["s"], ["t"], ["s", "t"], ["t", "s"], ["s", "s"]]),
                "list": st.lists(st.sampled_from(["s", "t"]), max_size=2),
                "fixed": st.dictionaries(st.sampled_from(["k", "l"]), _DIGIT, max_size=2),
                "words": st.dictionaries(st.sampled_from(["k", "l"]), _DIGIT, max_size=2),
                "maybe": st.sampled_from([None, "1"]),
                "free": st.sampled_from([{}, {"a": [1, {"b": None}]}, {"a": 1.0}]),
            }
        )
    }
)
_GAUGE_STATUS = _present(
    {
        "phase": st.sampled_from(["up", "down", "up", "down", "up", 1]),
        "replicas": st.integers(0, 3),
        "selector": st.sampled_from(["x=1", ""]),
        "conditions": st.lists(
            st.fixed_dictionaries({"type": st.sampled_from(["A", "B"])}, optional={"status": st.sampled_from(["True", "False"])}),
            max_size=2,
        ),
    }
)

_POD_MARKER = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
KINDS: Mapping[str, Kind] = {
    kind.collection: kind
    for kind in (
        Kind(
            "configmaps",
            "v1",
            "ConfigMap",
            _CONFIG,
            {},
            {"/data": st.just({"p": "3"}), "/data/p": _DIGIT, "/data/q": _DIGIT, "/immutable": st.booleans()},
            strategic=_present(
                {"data": st.sampled_from([{"$patch": "replace", "q": "3"}, {"p": None}, None, {"$patch": "delete"}])}
            ),
        ),
        Kind(
            "secrets",
            "v1",
            "Secret",
            _SECRET,
            {},
            {"/data": st.just({"p": "Aw=="}), "/data/p": st.just("Aw=="), "/type": st.just("Opaque")},
            selectors=("labelSelector=x%3D1", "fieldSelector=type%3DOpaque"),
        ),
        Kind(
            "coordination.k8s.io/v1/leases",
            "coordination.k8s.io/v1",
            "Lease",
            _LEASE,
            {},
            {
                "/spec": st.just({"holderIdentity": "three"}),
                "/spec/holderIdentity": st.just("four"),
                "/spec/leaseTransitions": st.integers(1, 3),
            },
        ),
        Kind(
            "pods",
            "v1",
            "Pod",
            st.fixed_dictionaries({"spec": _POD_SPEC}),
            _POD_MARKER,
            {
                "/spec/containers/0/image": st.just("l"),
                "/spec/containers/1": st.just({"name": "e", "image": "i"}),
                "/spec/activeDeadlineSeconds": st.integers(2, 6),
                "/spec/tolerations/-": st.just({"key": "y", "operator": "Exists"}),
                "/spec/schedulingGates": st.just([]),
            },
            status=_POD_STATUS,
            selectors=(
                "labelSelector=x%3D1",
                "fieldSelector=spec.nodeName%3D",
                "fieldSelector=status.phase%3DPending,spec.nodeName!%3Dm",
            ),
            strategic=st.fixed_dictionaries({"spec": _STRATEGIC_SPEC}),
            is_bound=True,
        ),
        Kind(
            "podtemplates",
            "v1",
            "PodTemplate",
            _TEMPLATE,
            {"template": _POD_MARKER},
            {
                "/template/spec/containers/0/env": st.just([{"name": "C", "value": "3"}]),
                "/template/spec/containers/-": st.just({"name": "e", "image": "i"}),
                "/template/metadata/labels/x": _DIGIT,
                "/template/spec/restartPolicy": st.just("Never"),
            },
            strategic=st.fixed_dictionaries({"template": st.fixed_dictionaries({"spec": _STRATEGIC_SPEC})}),
        ),
        Kind(
            "stateful.example.org/v1/gauges",
            "stateful.example.org/v1",
            "Gauge",
            _odd(_GAUGE, {"nope": 1}, {"spec": {"nope": {"a": 1}}}),
            {},
            {
                "/spec": st.just({"color": "green"}),
                "/spec/color": st.sampled_from(["red", "pink"]),
                "/spec/parts/0": st.just({"name": "o"}),
                "/spec/tags/-": st.just("t"),
                "/spec/words/k": st.sampled_from(["1", 1]),
                "/spec/replicas": st.integers(0, 3),
            },
            status=_odd(_GAUGE_STATUS, {"nope": 1}),
            selectors=("labelSelector=x%3D1", "fieldSelector=spec.color%3Dred"),
            is_scaled=True,
            collects=False,  # kube-controller-manager takes up to 30 s to follow a kind that is new
        ),
    )
}
