"""Nodes and namespaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.rules import names
from pyroclast.rules.amounts import amount
from pyroclast.rules.errors import ErrorType, FieldError, forbidden, invalid, invalid_for, required, unsupported
from pyroclast.rules.podspecs.internals import internal_form
from pyroclast.rules.podspecs.requirements import amount_problems
from pyroclast_standalone.apiserver.documents.metadata import check_finalizer_names
from pyroclast_standalone.apiserver.documents.selectors import read_field
from pyroclast_standalone.apiserver.kinds.checks import named
from pyroclast_standalone.apiserver.kinds.rules import FieldPart, Rules, age_of

_NO_FINALIZER: Final = "name is neither a standard finalizer name nor is it fully qualified"
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def _default_node(document: dict[str, Any]) -> None:
    status = document["status"]
    if "allocatable" not in status and status.get("capacity"):
        status["allocatable"] = dict(status["capacity"])


def _check_taints(taints: list[dict[str, Any]], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        own = f"{path}[{index}]"
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        errors += named(key, names.qualified_name, f"{own}.key")
        if wrong := names.label_value(value):
            errors.append(invalid(f"{own}.value", value, ";".join(wrong)))
        if not effect:
            errors.append(required(f"{own}.effect"))
        elif effect not in _EFFECTS:
            errors.append(unsupported(f"{own}.effect", effect, _EFFECTS))
        if (key, effect) in seen:
            shown = {**internal_form(taint, ("key", "value", "effect", "timeAdded")), "Value": value}
            errors.append(FieldError(own, ErrorType.DUPLICATE, "taints must be unique by key and effect pair", shown))
        seen.add((key, effect))
    return errors


def _check_resources(status: Mapping[str, Any]) -> list[FieldError]:
    return [
        error
        for field in ("capacity", "allocatable")
        for name, value in (status.get(field) or {}).items()
        for error in invalid_for(f"status.{field}.{name}", value, amount_problems(name, amount(value)))
    ]


def _check_node(document: dict[str, Any]) -> list[FieldError]:
    spec, status = document["spec"], document.get("status") or {}
    return [*_check_taints(spec.get("taints") or [], "metadata.taints"), *_check_resources(status)]


def _check_node_change(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    spec, before = new["spec"], old["spec"]
    return [
        *_check_taints(spec.get("taints") or [], "metadata.taints"),  # kube-apiserver checks them twice
        *_check_node(new),
        *(
            forbidden(f"spec.{shown}", f'node updates may not change {field} except from "" to valid')
            for field, shown in (("podCIDR", "podCIDRs"), ("providerID", "providerID"))
            if before.get(field) and spec.get(field) != before[field]
        ),
    ]


def _addresses(status: Mapping[str, Any], kind: str) -> str:
    return next((each["address"] for each in status.get("addresses") or () if each.get("type") == kind), "<none>")


def _roles(labels: Mapping[str, str]) -> str:
    prefix = "node-role.kubernetes.io/"
    roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix)}
    if own := labels.get("kubernetes.io/role"):
        roles.add(own)
    return ",".join(sorted(role for role in roles if role)) or "<none>"


def _node_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    spec, status = document.get("spec") or {}, document.get("status") or {}
    ready = next((each.get("status") for each in status.get("conditions") or () if each.get("type") == "Ready"), None)
    state = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    if spec.get("unschedulable"):
        state += ",SchedulingDisabled"
    info = status.get("nodeInfo") or {}
    kernel = info.get("kernelVersion") or "<unknown>"
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        document["metadata"]["name"],
        state,
        _roles(document["metadata"].get("labels") or {}),
        age_of(document, now),
        info.get("kubeletVersion", ""),
        _addresses(status, "InternalIP"),
        _addresses(status, "ExternalIP"),
        info.get("osImage") or "<unknown>",
        kernel,
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _unschedulable(document: Mapping[str, Any]) -> str:
    return "true" if (document.get("spec") or {}).get("unschedulable") else "false"


NODE: Final = Rules(
    default=_default_node,
    check=_check_node,
    check_update=_check_node_change,
    check_status=lambda new, _old: _check_node(new),
    keeps_status=True,
    fields={"spec.unschedulable": _unschedulable},
    cells=_node_cells,
)


def _default_namespace(document: dict[str, Any]) -> None:
    document["status"].setdefault("phase", "Active")
    metadata = document["metadata"]
    if name := metadata.get("name"):
        labels = metadata.get("labels")
        if labels is None:
            labels = metadata["labels"] = {}
        labels["kubernetes.io/metadata.name"] = name


def _prepare_namespace(document: dict[str, Any]) -> None:
    document["status"] = {"phase": "Active"}
    finalizers = document["spec"].get("finalizers") or []
    if "kubernetes" not in finalizers:
        document["spec"]["finalizers"] = [*finalizers, "kubernetes"]


def _prepare_namespace_update(new: dict[str, Any], old: Mapping[str, Any]) -> None:
    new["spec"]["finalizers"] = old["spec"].get("finalizers") or []
    if not new["spec"]["finalizers"]:
        del new["spec"]["finalizers"]


def _keep_all_but_finalizers(new: dict[str, Any], old: Mapping[str, Any]) -> None:
    if "status" in old:
        new["status"] = old["status"]


def _check_namespace_finalizers(new: dict[str, Any], _old: dict[str, Any]) -> list[FieldError]:
    return check_finalizer_names(new["spec"], "spec.finalizers")


def _check_namespace(document: dict[str, Any]) -> list[FieldError]:
    return [
        invalid("spec.finalizers", name, text)
        for name in document["spec"].get("finalizers") or ()
        for text in (names.qualified_name(name) or (() if "/" in name or name == "kubernetes" else (_NO_FINALIZER,)))
    ]


NAMESPACE: Final = Rules(
    check=_check_namespace,
    check_update=lambda _new, _old: [],  # the finalizers cannot change
    name=names.dns_label,
    default=_default_namespace,
    prepare=_prepare_namespace,
    prepare_update=_prepare_namespace_update,
    parts={"finalize": FieldPart(_keep_all_but_finalizers, _check_namespace_finalizers, reaches_metadata=True)},
    fields={"status.phase": read_field("status.phase")},
)
