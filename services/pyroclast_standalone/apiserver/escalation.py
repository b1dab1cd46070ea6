"""Nobody gives away more than they have: roles and bindings are refused whose rules go beyond those of their writer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final

from pyroclast.resources.go_text import go_quote

from . import objectmeta, status
from .admission import Review
from .authz import Attributes, Authorizer
from .context import Context
from .store import Store

__all__ = ["Escalation", "missing_rules"]

Rule = Mapping[str, Any]

_GROUP: Final = "rbac.authorization.k8s.io"
_ROLES: Final = {"roles", "clusterroles"}
_BINDINGS: Final = {"rolebindings", "clusterrolebindings"}
_SHOWN: Final = (
    ("APIGroups", "apiGroups"),
    ("Resources", "resources"),
    ("NonResourceURLs", "nonResourceURLs"),
    ("ResourceNames", "resourceNames"),
    ("Verbs", "verbs"),
)


class Escalation:
    """Looks at each write of a role or a binding."""

    def __init__(self, store: Store, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._roles = store.collection(f"roles.{_GROUP}")
        self._cluster_roles = store.collection(f"clusterroles.{_GROUP}")

    async def check(self, review: Review) -> None:
        """Refuse rules that the writer has not.

        Raises:
            StatusError: 403, with what is missing; 404, the role that is bound is not there.
        """
        resource, body = review.resource, review.body
        if resource.group != _GROUP or body is None or "system:masters" in review.context.user.groups:
            return
        if review.old is not None and objectmeta.is_same(body, review.old):
            return
        wanted: Sequence[Rule]
        if resource.plural in _ROLES:
            if self._may(review.context, "escalate", resource.plural, review.namespace, review.name):
                return
            wanted = body.get("rules") or ()
        elif resource.plural in _BINDINGS:
            reference = body["roleRef"]
            plural = "clusterroles" if reference.get("kind") == "ClusterRole" else "roles"
            if self._may(review.context, "bind", plural, review.namespace, reference.get("name", "")):
                return
            wanted = self._rules_of(plural, review.namespace, reference.get("name", ""))
        else:
            return
        held = [rule for _, _, rules in self._authorizer.rules_for(review.context.user, review.namespace) for rule in rules]
        if missing := missing_rules(held, wanted):
            user = review.context.user
            who = f"user {go_quote(user.name)} (groups={_quoted(user.groups)})"
            lines = "\n".join(sorted({_shown(rule) for rule in _compacted(missing)}))
            why = f"{who} is attempting to grant RBAC permissions not currently held:\n{lines}"
            raise status.forbidden(_GROUP, resource.plural, review.name, why)

    def _may(self, context: Context, verb: str, plural: str, namespace: str, name: str) -> bool:
        return self._authorizer.decide(context.user, Attributes(verb, _GROUP, plural, "", namespace, name)).allowed

    def _rules_of(self, plural: str, namespace: str, name: str) -> Sequence[Rule]:
        collection = self._cluster_roles if plural == "clusterroles" else self._roles
        stored = collection.items.get(name if plural == "clusterroles" else f"{namespace}/{name}")
        if stored is None:
            raise status.not_found(_GROUP, plural, name)
        rules: Sequence[Rule] = stored.load().get("rules") or ()
        return rules


def missing_rules(held: Sequence[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """The smallest rules of `wanted` that no rule of `held` covers."""
    return [part for rule in wanted for part in _parts(rule) if not any(_covers(own, part) for own in held)]


def _parts(rule: Rule) -> Iterator[Rule]:
    verbs, names = rule.get("verbs") or (), rule.get("resourceNames") or ()
    for group, resource, verb in product(rule.get("apiGroups") or (), rule.get("resources") or (), verbs):
        part = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
        yield from ({**part, "resourceNames": [name]} for name in names) if names else (part,)
    for url, verb in product(rule.get("nonResourceURLs") or (), verbs):
        yield {"nonResourceURLs": [url], "verbs": [verb]}


def _covers(own: Rule, part: Rule) -> bool:
    names = own.get("resourceNames") or ()
    return (
        all(_has_words(own.get(field) or (), part.get(field) or ()) for field in ("verbs", "apiGroups"))
        and all(_has_resource(own.get("resources") or (), each) for each in part.get("resources") or ())
        and all(_has_path(own.get("nonResourceURLs") or (), each) for each in part.get("nonResourceURLs") or ())
        and (not names or (bool(part.get("resourceNames")) and set(part["resourceNames"]) <= set(names)))
    )


def _has_words(own: Sequence[str], words: Sequence[str]) -> bool:
    return "*" in own or set(words) <= set(own)


def _has_resource(own: Sequence[str], resource: str) -> bool:
    _, slash, subresource = resource.partition("/")
    return "*" in own or resource in own or (bool(slash) and f"*/{subresource}" in own)


def _has_path(own: Sequence[str], path: str) -> bool:
    return any(each == path or (each.endswith("*") and path.startswith(each.rstrip("*"))) for each in own)


def _compacted(rules: Iterable[Rule]) -> list[Rule]:
    """`rules` with the verbs on the same resource put together."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for rule in rules:
        key = tuple(tuple(rule.get(field) or ()) for _, field in _SHOWN[:-1])
        if key[2]:
            key += tuple(rule["verbs"])
        if key in found:
            found[key]["verbs"] = [*found[key]["verbs"], *rule["verbs"]]
        else:
            found[key] = dict(rule)
    return list(found.values())


def _shown(rule: Rule) -> str:
    return "{" + ", ".join(f"{name}:{_quoted(rule[field])}" for name, field in _SHOWN if rule.get(field)) + "}"


def _quoted(values: Iterable[str]) -> str:
    return f"[{' '.join(map(go_quote, values))}]"
