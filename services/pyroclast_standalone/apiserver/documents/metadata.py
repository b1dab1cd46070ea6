"""Validation of `metadata`, with the rules for all kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.resources.go_text import go_quote
from pyroclast.rules import names
from pyroclast.rules.errors import FieldError, forbidden, invalid, required
from pyroclast.rules.podspecs.annotations import check_annotation_names
from pyroclast.rules.podspecs.options import check_labels

IMMUTABLE: Final = "field is immutable"
_OWNER_FIELDS: Final = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
_ONLY_ONE: Final = 'Only one reference can have Controller set to true. Found "true" in references for {} and {}'


def _in_order(owner: Mapping[str, Any]) -> dict[str, Any]:
    """Return an owner reference with its fields in the API's order."""
    return {name: owner[name] for name in _OWNER_FIELDS if name in owner}


def _check_owners(owners: list[dict[str, Any]], path: str) -> list[FieldError]:
    errors = []
    controller = ""
    for owner in owners:
        for name, text in (("apiVersion", "version must not be empty"), ("kind", ""), ("name", ""), ("uid", "")):
            if not owner.get(name):
                errors.append(invalid(f"{path}.{name}", owner.get(name, ""), text or "must not be empty"))
        if owner.get("apiVersion") == "v1" and owner.get("kind") == "Event":
            errors.append(invalid(path, _in_order(owner), "/v1, Kind=Event is disallowed from being an owner"))
        if owner.get("controller"):
            own = f"{owner.get('kind')}/{owner.get('name')}"
            if controller:
                errors.append(invalid(path, [*map(_in_order, owners)], _ONLY_ONE.format(controller, own)))
            controller = controller or own
    return errors


def _check_finalizers(finalizers: list[str], path: str) -> list[FieldError]:
    errors = [invalid(path, each, sentence) for each in finalizers for sentence in names.qualified_name(each)]
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        errors.append(invalid(path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set"))
    return errors


STANDARD_FINALIZERS: Final = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
_UNQUALIFIED: Final = "name is neither a standard finalizer name nor is it fully qualified"


def check_finalizer_names(metadata: Mapping[str, Any], path: str = "metadata.finalizers") -> list[FieldError]:
    """Check that the finalizers of a built-in kind have a qualified name."""
    finalizers = metadata.get("finalizers")
    if not finalizers:
        return []
    return [
        invalid(f"{path}[{index}]", each, _UNQUALIFIED)
        for index, each in enumerate(finalizers)
        if "/" not in each and each not in STANDARD_FINALIZERS
    ]


def check_metadata(
    metadata: Mapping[str, Any], *, namespaced: bool, name_rule: names.NameRule, path: str = "metadata"
) -> list[FieldError]:
    """Return the faults of an object's metadata, after its name was generated."""
    errors: list[FieldError] = []
    if generated := metadata.get("generateName"):
        errors += [invalid(f"{path}.generateName", generated, sentence) for sentence in name_rule(_masked(generated))]
    name = metadata.get("name")
    if not name:
        errors.append(required(f"{path}.name", "name or generateName is required"))
    elif wrong := name_rule(name):
        errors += [invalid(f"{path}.name", name, sentence) for sentence in wrong]
    namespace = metadata.get("namespace")
    if namespaced and not namespace:
        errors.append(required(f"{path}.namespace"))
    elif namespaced:
        if wrong := names.dns_label(namespace or ""):
            errors += [invalid(f"{path}.namespace", namespace, sentence) for sentence in wrong]
    elif namespace:
        errors.append(forbidden(f"{path}.namespace", "not allowed on this type"))
    errors += _check_common(metadata, path)
    return errors


def _check_common(metadata: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if (generation := metadata.get("generation") or 0) < 0:
        errors.append(invalid(f"{path}.generation", generation, "must be greater than or equal to 0"))
    if labels := metadata.get("labels"):
        check_labels(labels, f"{path}.labels", errors)
    if annotations := metadata.get("annotations"):
        check_annotation_names(annotations, f"{path}.annotations", errors)
    if owners := metadata.get("ownerReferences"):
        errors += _check_owners(owners, f"{path}.ownerReferences")
    if finalizers := metadata.get("finalizers"):
        errors += _check_finalizers(finalizers, f"{path}.finalizers")
    return errors


def _masked(prefix: str) -> str:
    """Return a name prefix in the form of a name: a dash at its end is valid."""
    return f"{prefix[:-1]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def check_metadata_update(
    new: Mapping[str, Any], old: Mapping[str, Any], *, path: str = "metadata", times: int = 1
) -> list[FieldError]:
    """Return the faults of changed metadata: the identity may not change, and a terminating object may get no new finalizers.

    kube-apiserver checks a change more than once and repeats the errors each time. `times` is how often it does so.
    """
    errors = _check_change(new, old, path) * (2 if times > 2 else 1)
    return [*errors, *(_check_common(new, path) * times)]


def _check_change(new: Mapping[str, Any], old: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if old.get("deletionTimestamp"):
        extra = sorted(set(new.get("finalizers") or ()) - set(old.get("finalizers") or ()))
        if extra:
            listed = ", ".join(map(go_quote, extra))
            text = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{listed}}}"
            errors.append(forbidden(f"{path}.finalizers", text))
    if (new.get("generation") or 0) < (old.get("generation") or 0):
        errors.append(invalid(f"{path}.generation", new.get("generation") or 0, "must not be decremented"))
    for name in ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        mine, theirs = new.get(name), old.get(name)
        if mine != theirs:
            errors.append(invalid(f"{path}.{name}", mine if mine is not None else _nothing(name), IMMUTABLE))
    return errors


def _nothing(field: str) -> Any:  # noqa: ANN401  # the empty value as the API prints it
    return None if field in {"creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"} else ""
