"""Roles and their bindings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import FieldError, invalid, required, unsupported
from pyroclast_standalone.apiserver.documents.tables import Column

from .checks import named
from .internals import internal_form
from .label_selectors import check_selector
from .rules import AGE, NAME, Rules, age_of

__all__ = ["CLUSTER_ROLE", "CLUSTER_ROLE_BINDING", "ROLE", "ROLE_BINDING"]

_RBAC: Final = "io.k8s.api.rbac.v1."
_GROUP: Final = "rbac.authorization.k8s.io"


def _check_rule(rule: Mapping[str, Any], path: str, *, namespaced: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    if not rule.get("verbs"):
        errors.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            text = "namespaced rules cannot apply to non-resource URLs"
            errors.append(invalid(f"{path}.nonResourceURLs", urls, text))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(invalid(f"{path}.nonResourceURLs", urls, text))
        return errors
    if not rule.get("apiGroups"):
        errors.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        errors.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
    return errors


def _check_aggregation(rule: Mapping[str, Any] | None) -> list[FieldError]:
    if rule is None:
        return []
    own, selectors = "aggregationRule.clusterRoleSelectors", rule.get("clusterRoleSelectors") or ()
    if not selectors:
        return [required(own, "at least one clusterRoleSelector required if aggregationRule is non-nil")]
    errors: list[FieldError] = []
    for index, selector in enumerate(selectors):
        wrong = check_selector(selector, f"{own}[{index}]")
        errors += wrong
        if wrong:
            errors.append(invalid(f"{own}[{index}]", None, "invalid label selector."))
    return errors


def _check_role(*, namespaced: bool) -> Callable[[dict[str, Any]], list[FieldError]]:
    def check(document: dict[str, Any]) -> list[FieldError]:
        rules = document.get("rules") or ()
        errors = [
            error for index, rule in enumerate(rules) for error in _check_rule(rule, f"rules[{index}]", namespaced=namespaced)
        ]
        return errors if namespaced else [*errors, *_check_aggregation(document.get("aggregationRule"))]

    return check


def _default_binding(document: dict[str, Any]) -> None:
    if not document["roleRef"].get("apiGroup"):
        document["roleRef"]["apiGroup"] = _GROUP
    for subject in document.get("subjects") or ():
        if subject.get("kind") in {"User", "Group"} and not subject.get("apiGroup"):
            subject["apiGroup"] = _GROUP


def _check_subject(subject: Mapping[str, Any], path: str, *, namespaced: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    name, group = subject.get("name", ""), subject.get("apiGroup", "")
    if not name:
        errors.append(required(f"{path}.name"))
    match subject.get("kind", ""):
        case "ServiceAccount":
            if name:
                errors += named(name, names.dns_subdomain, f"{path}.name")
            if group:
                errors.append(unsupported(f"{path}.apiGroup", group, [""]))
            if not namespaced and not subject.get("namespace"):
                errors.append(required(f"{path}.namespace"))
        case "User" | "Group":
            if group != _GROUP:
                errors.append(unsupported(f"{path}.apiGroup", group, [_GROUP]))
        case kind:
            errors.append(unsupported(f"{path}.kind", kind, ["ServiceAccount", "User", "Group"]))
    return errors


def _check_binding(*, namespaced: bool) -> Callable[[dict[str, Any]], list[FieldError]]:
    kinds = ["Role", "ClusterRole"] if namespaced else ["ClusterRole"]

    def check(document: dict[str, Any]) -> list[FieldError]:
        reference = document["roleRef"]
        errors: list[FieldError] = []
        if reference.get("apiGroup") != _GROUP:
            errors.append(unsupported("roleRef.apiGroup", reference.get("apiGroup", ""), [_GROUP]))
        if reference.get("kind") not in kinds:
            errors.append(unsupported("roleRef.kind", reference.get("kind", ""), kinds))
        if not reference.get("name"):
            errors.append(required("roleRef.name"))
        else:
            errors += named(reference["name"], names.path_segment, "roleRef.name")
        for index, subject in enumerate(document.get("subjects") or ()):
            errors += _check_subject(subject, f"subjects[{index}]", namespaced=namespaced)
        return errors

    return check


def _update_binding(
    check: Callable[[dict[str, Any]], list[FieldError]],
) -> Callable[[dict[str, Any], dict[str, Any]], list[FieldError]]:
    def check_update(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
        errors = check(new)
        if new["roleRef"] != old["roleRef"]:
            shown = internal_form(new["roleRef"], ("apiGroup", "kind", "name"))
            errors.append(invalid("roleRef", shown, "cannot change roleRef"))
        return errors

    return check_update


def _names_of(document: Mapping[str, Any], kind: str) -> str:
    found = [each for each in document.get("subjects") or () if each.get("kind") == kind]
    if kind == "ServiceAccount":
        return ", ".join(f"{each.get('namespace', '')}/{each.get('name', '')}" for each in found)
    return ", ".join(each.get("name", "") for each in found)


def _binding_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    reference = document["roleRef"]
    return [
        document["metadata"]["name"],
        f"{reference.get('kind', '')}/{reference.get('name', '')}",
        age_of(document, now),
        *(_names_of(document, kind) for kind in ("User", "Group", "ServiceAccount")),
    ]


def _binding_columns(kind: str) -> tuple[Column, ...]:
    return (
        NAME,
        Column("Role", doc=f"{_RBAC}{kind}.roleRef"),
        AGE,
        Column("Users", priority=1, description="Users that the role is given to."),
        Column("Groups", priority=1, description="Groups that the role is given to."),
        Column("ServiceAccounts", priority=1, description="Service accounts that the role is given to."),
    )


_role, _cluster_role = _check_role(namespaced=True), _check_role(namespaced=False)
_binding, _cluster_binding = _check_binding(namespaced=True), _check_binding(namespaced=False)

ROLE: Final = Rules(metadata_checks=4, name=names.path_segment, check=_role, check_update=lambda new, _old: _role(new))
CLUSTER_ROLE: Final = Rules(
    metadata_checks=4,
    name=names.path_segment,
    check=_cluster_role,
    check_update=lambda new, _old: _cluster_role(new),
)
ROLE_BINDING: Final = Rules(
    metadata_checks=4,
    name=names.path_segment,
    default=_default_binding,
    check=_binding,
    check_update=_update_binding(_binding),
    columns=_binding_columns("RoleBinding"),
    cells=_binding_cells,
)
CLUSTER_ROLE_BINDING: Final = Rules(
    metadata_checks=4,
    name=names.path_segment,
    default=_default_binding,
    check=_cluster_binding,
    check_update=_update_binding(_cluster_binding),
    columns=_binding_columns("ClusterRoleBinding"),
    cells=_binding_cells,
)
