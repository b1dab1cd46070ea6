"""Webhook configurations as values, and which webhooks apply to a write, in order.

Matching is separate from calling, because every write is matched, and must be fast if no webhook applies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyroclast_standalone.apiserver.admission.chain import Review
from pyroclast_standalone.apiserver.documents.conditions import Conditions
from pyroclast_standalone.apiserver.documents.selectors import LabelSelector, from_label_selector
from pyroclast_standalone.apiserver.storage.registry import Registry, Resource
from pyroclast_standalone.apiserver.storage.store import Change, Collection, Store

_GROUP: Final = "admissionregistration.k8s.io"
_NEVER: Final = {f"mutatingwebhookconfigurations.{_GROUP}", f"validatingwebhookconfigurations.{_GROUP}"}


@dataclass(frozen=True, slots=True, eq=False)
class Hook:
    """One webhook of a configuration with its defaults. `timeout` is in seconds."""

    configuration: str
    name: str
    client: Mapping[str, Any]
    rules: tuple[Mapping[str, Any], ...]
    is_strict: bool  # whether a failed call rejects the write
    is_exact: bool  # whether only the requested version matches
    namespaces: LabelSelector
    objects: LabelSelector
    conditions: Conditions | None
    dry_run: bool
    timeout: int
    reinvoked: bool
    versions: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Matched:
    """A webhook, and the resource in whose version it receives the object."""

    hook: Hook
    resource: Resource


class Hooks:
    """The webhooks of one kind of configuration, `mutating` or `validating`, updated with each change."""

    def __init__(self, store: Store, registry: Registry, kind: str) -> None:
        self._configurations = store.collection(f"{kind}webhookconfigurations.{_GROUP}")
        self._namespaces = store.collection("namespaces")
        self._registry = registry
        self._hooks: list[Hook] | None = None
        self._by_request: dict[tuple[str, Resource, str], list[Matched]] = {}
        self._generation = -1
        store.listeners.append(self._on_change)

    def _on_change(self, collection: Collection, _: Change) -> None:
        if collection is self._configurations:
            self._hooks = None
            self._by_request.clear()

    def matching(self, review: Review) -> list[Matched]:
        """Return the webhooks that apply to `review`, in order. Match conditions are not evaluated here."""
        if self._generation != self._registry.generation:
            self._by_request.clear()
            self._generation = self._registry.generation
        key = (review.operation, review.resource, review.subresource)
        if key not in self._by_request:
            self._by_request[key] = [] if review.resource.qualified in _NEVER else self._by_rules(review)
        found = self._by_request[key]
        return [each for each in found if selected(each.hook.namespaces, each.hook.objects, review, self._namespaces)]

    def _by_rules(self, review: Review) -> list[Matched]:
        if self._hooks is None:
            self._hooks = [hook for stored in self._configurations.select() for hook in _hooks_of(stored.load())]
        matches = ((hook, rules_match(hook.rules, review, self._registry, exact=hook.is_exact)) for hook in self._hooks)
        return [Matched(hook, resource) for hook, resource in matches if resource is not None]


def rules_match(rules: tuple[Mapping[str, Any], ...], review: Review, registry: Registry, *, exact: bool) -> Resource | None:
    """Return the resource by which one of `rules` matches the write, in the requested version or another one, or None."""
    if any(_matches(rule, review, review.resource) for rule in rules):
        return review.resource
    if exact:
        return None
    for other in registry.resources():
        is_other_version = other.collection is review.resource.collection and other is not review.resource
        if is_other_version and any(_matches(rule, review, other) for rule in rules):
            return other
    return None


def selected(namespaces: LabelSelector, objects: LabelSelector, review: Review, known: Collection) -> bool:
    """Return whether the labels of the object (old or new) and of its namespace match the selectors."""
    if objects and not any(each is not None and objects.selects(each) for each in (review.body, review.old)):
        return False
    if not namespaces:
        return True
    if review.resource.qualified == "namespaces":
        body = review.body if review.body is not None else review.old
        return body is None or namespaces.selects(body)
    if not review.resource.namespaced:
        return True
    stored = known.items.get(review.namespace)
    return namespaces.matches(stored.labels if stored is not None else {})


def _matches(rule: Mapping[str, Any], review: Review, resource: Resource) -> bool:
    def has(field: str, value: str) -> bool:
        values = rule.get(field) or ()
        return "*" in values or value in values

    if not (has("operations", review.operation) and has("apiGroups", resource.group) and has("apiVersions", resource.version)):
        return False
    scope = rule.get("scope") or "*"
    if scope != "*" and (scope == "Namespaced") is not (resource.namespaced and resource.qualified != "namespaces"):
        return False
    plural, subresource = resource.plural, review.subresource
    for pattern in rule.get("resources") or ():
        wanted, _, wanted_sub = pattern.partition("/")
        if wanted in {"*", plural} and wanted_sub in {"*", subresource}:
            return True
    return False


def _hooks_of(body: dict[str, Any]) -> list[Hook]:
    return [
        Hook(
            body["metadata"]["name"],
            entry["name"],
            entry.get("clientConfig") or {},
            tuple(entry.get("rules") or ()),
            (entry.get("failurePolicy") or "Fail") == "Fail",
            entry.get("matchPolicy") == "Exact",
            from_label_selector(entry.get("namespaceSelector") or {}),
            from_label_selector(entry.get("objectSelector") or {}),
            Conditions(entry["matchConditions"]) if entry.get("matchConditions") else None,
            entry.get("sideEffects") in {"None", "NoneOnDryRun"},
            int(entry.get("timeoutSeconds") or 10),
            entry.get("reinvocationPolicy") == "IfNeeded",
            tuple(entry.get("admissionReviewVersions") or ("v1",)),
        )
        for entry in body.get("webhooks") or ()
    ]
