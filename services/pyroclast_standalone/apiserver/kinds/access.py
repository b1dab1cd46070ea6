"""Kinds with few rules: roles and bindings, NetworkPolicies, PriorityClasses, Leases, and Events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.rules import names
from pyroclast.rules.errors import FieldError, forbidden, invalid, required, unsupported
from pyroclast.rules.podspecs.internals import internal_form
from pyroclast.views.readable import human_duration
from pyroclast_standalone.apiserver.documents.selectors import read_field
from pyroclast_standalone.apiserver.kinds.rules import Rules, immutable, named, optional_choice
from pyroclast_standalone.times import parse_time, since

RENAMED: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
"""Fields of core events, and their names in `events.k8s.io` events."""


def _check_place(document: Mapping[str, Any], *, is_new: bool) -> list[FieldError]:
    """Check that an event is in the namespace of its object."""
    namespace, own = (document.get("involvedObject") or {}).get("namespace", ""), document["metadata"].get("namespace", "")
    if is_new:
        fits = bool(namespace) or own in {"default", "kube-system"}
    else:
        fits = own == namespace if namespace else own in {"", "default"}
    return [] if fits else [invalid("involvedObject.namespace", namespace, "does not match event.namespace")]


def _check_event(document: dict[str, Any]) -> list[FieldError]:
    if not document.get("eventTime"):
        return _check_place(document, is_new=False)
    controller = document.get("reportingComponent") or ""
    errors = [*_check_place(document, is_new=True), *named(controller, names.qualified_name, "reportingComponent")]
    return [*errors, *(required(field) for field in ("reportingInstance", "action", "reason") if not document.get(field))]


def _source(document: Mapping[str, Any]) -> str:
    source = document.get("source") or {}
    component = source.get("component") or document.get("reportingComponent") or ""
    instance = source.get("host") or document.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


def _since_micro(text: object, now: float) -> str:
    then = parse_time(text)
    return "<unknown>" if then is None else human_duration(now - then)


def _event_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    first = since(document.get("firstTimestamp"), now)
    if not document.get("firstTimestamp"):
        first = _since_micro(document.get("eventTime"), now)
    last = since(document.get("lastTimestamp"), now) if document.get("lastTimestamp") else first
    series = document.get("series")
    count = document.get("count") or 1
    if series:
        last, count = _since_micro(series.get("lastObservedTime"), now), series.get("count", 0)
    involved = document.get("involvedObject") or {}
    kind = involved.get("kind", "").lower()
    return [
        last,
        document.get("type", ""),
        document.get("reason", ""),
        f"{kind}/{involved['name']}" if involved.get("name") else kind,
        involved.get("fieldPath", ""),
        _source(document),
        (document.get("message") or "").strip(),
        first,
        count,
        document["metadata"]["name"],
    ]


def _event_source(document: Mapping[str, Any]) -> str:
    return (document.get("source") or {}).get("component") or document.get("reportingComponent") or ""


EVENT: Final = Rules(
    check=_check_event,
    fields={
        **{
            f"involvedObject.{name}": read_field(f"involvedObject.{name}")
            for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        },
        "reason": read_field("reason"),
        "reportingComponent": read_field("reportingComponent"),
        "source": _event_source,
        "type": read_field("type"),
    },
    cells=_event_cells,
)
REGARDING_EVENT: Final = Rules(
    cells=lambda document, now: _event_cells({**document, **{core: document.get(name) for core, name in RENAMED.items()}}, now)
)


_HIGHEST: Final = 1_000_000_000
_SYSTEM: Final = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_RESERVED: Final = "priority class names with 'system-' prefix are reserved for system use only. error: {}"


def _check_priority_class(document: dict[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    name, value = document["metadata"].get("name") or "", document.get("value", 0)
    if name.startswith("system-"):
        if value != _SYSTEM.get(name):
            errors.append(forbidden("metadata.name", _RESERVED.format(f"{name} is not a known system priority class")))
    elif value > _HIGHEST:
        errors.append(forbidden("value", f"maximum allowed value of a user defined priority is {_HIGHEST}"))
    return [*errors, *optional_choice(document, "preemptionPolicy", ("PreemptLowerPriority", "Never"), "")]


def _update_priority_class(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    errors = [] if new.get("value") == old.get("value") else [forbidden("value", "may not be changed in an update.")]
    return [*errors, *immutable(new, old, "preemptionPolicy", "preemptionPolicy")]


PRIORITY_CLASS: Final = Rules(check=_check_priority_class, check_update=_update_priority_class, generation=True)


LEASE: Final = Rules(needs_version=True)


def _default_policy(document: dict[str, Any]) -> None:
    spec = document["spec"]
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


NETWORK_POLICY: Final = Rules(default=_default_policy, generation=True)


_GROUP: Final = "rbac.authorization.k8s.io"
_SUBJECTS: Final = ("ServiceAccount", "User", "Group")


def _check_role(document: dict[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, rule in enumerate(document.get("rules") or ()):
        own = f"rules[{index}]"
        if not rule.get("verbs"):
            errors.append(required(f"{own}.verbs", "verbs must contain at least one value"))
        if rule.get("nonResourceURLs"):
            if document["metadata"].get("namespace"):
                text = "namespaced rules cannot apply to non-resource URLs"
                errors.append(invalid(f"{own}.nonResourceURLs", rule["nonResourceURLs"], text))
            continue
        for field, word in (("apiGroups", "api group"), ("resources", "resource")):
            if not rule.get(field):
                errors.append(required(f"{own}.{field}", f"resource rules must supply at least one {word}"))
    return errors


def _default_binding(document: dict[str, Any]) -> None:
    if not document["roleRef"].get("apiGroup"):
        document["roleRef"]["apiGroup"] = _GROUP
    for subject in document.get("subjects") or ():
        if subject.get("kind") in {"User", "Group"} and not subject.get("apiGroup"):
            subject["apiGroup"] = _GROUP


def _check_subject(subject: Mapping[str, Any], path: str, *, namespaced: bool) -> list[FieldError]:
    kind, group = subject.get("kind", ""), subject.get("apiGroup", "")
    errors = [] if subject.get("name") else [required(f"{path}.name")]
    if kind not in _SUBJECTS:
        return [*errors, unsupported(f"{path}.kind", kind, _SUBJECTS)]
    wanted = "" if kind == "ServiceAccount" else _GROUP
    if group != wanted:
        errors.append(unsupported(f"{path}.apiGroup", group, [wanted]))
    if kind == "ServiceAccount" and not namespaced and not subject.get("namespace"):
        errors.append(required(f"{path}.namespace"))
    return errors


def _check_binding(document: dict[str, Any]) -> list[FieldError]:
    reference, namespaced = document["roleRef"], bool(document["metadata"].get("namespace"))
    kinds = ["Role", "ClusterRole"] if namespaced else ["ClusterRole"]
    errors: list[FieldError] = []
    if reference.get("apiGroup") != _GROUP:
        errors.append(unsupported("roleRef.apiGroup", reference.get("apiGroup", ""), [_GROUP]))
    if reference.get("kind") not in kinds:
        errors.append(unsupported("roleRef.kind", reference.get("kind", ""), kinds))
    if not reference.get("name"):
        errors.append(required("roleRef.name"))
    for index, subject in enumerate(document.get("subjects") or ()):
        errors += _check_subject(subject, f"subjects[{index}]", namespaced=namespaced)
    return errors


def _update_binding(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    if new["roleRef"] == old["roleRef"]:
        return _check_binding(new)
    shown = internal_form(new["roleRef"], ("apiGroup", "kind", "name"))
    return [*_check_binding(new), invalid("roleRef", shown, "cannot change roleRef")]


ROLE: Final = Rules(name=names.path_segment, check=_check_role)
ROLE_BINDING: Final = Rules(name=names.path_segment, default=_default_binding, check=_check_binding, check_update=_update_binding)
