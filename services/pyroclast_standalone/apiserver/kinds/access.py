"""Roles and their bindings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.rules import names
from pyroclast.rules.errors import FieldError, invalid, required, unsupported
from pyroclast.rules.podspecs.internals import internal_form
from pyroclast_standalone.apiserver.kinds.rules import Rules

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
CLUSTER_ROLE: Final = ROLE
ROLE_BINDING: Final = Rules(name=names.path_segment, default=_default_binding, check=_check_binding, check_update=_update_binding)
CLUSTER_ROLE_BINDING: Final = ROLE_BINDING
