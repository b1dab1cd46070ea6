"""Authorization: RBAC with the stored roles and bindings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from pyroclast_standalone.apiserver.requests import status
from pyroclast_standalone.apiserver.requests.context import User
from pyroclast_standalone.apiserver.requests.routes import RequestInfo
from pyroclast_standalone.apiserver.storage.store import Change, Collection, Store

_GROUP: Final = "rbac.authorization.k8s.io"
_CACHE_LIMIT: Final = 20_000  # verdicts: the users of a test cluster times their kinds of request
_NONE: Final[tuple[str, ...]] = ()


class Verdict(msgspec.Struct, frozen=True):
    """Whether a request is allowed, and by which binding."""

    allowed: bool
    reason: str = ""

    def annotations(self) -> dict[str, str]:
        """The annotations about this verdict in the audit event of the request."""
        return {
            "authorization.k8s.io/decision": "allow" if self.allowed else "forbid",
            "authorization.k8s.io/reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class _Binding:
    namespace: str  # namespace of the binding; empty for a ClusterRoleBinding
    name: str
    role_kind: str
    role: str
    subjects: tuple[Mapping[str, Any], ...]


_ANYTHING: Final = Verdict(True)


class Authorizer:
    """RBAC. Verdicts are cached until any role or binding changes."""

    def __init__(self, store: Store) -> None:
        self._roles = store.collection(f"roles.{_GROUP}")
        self._cluster_roles = store.collection(f"clusterroles.{_GROUP}")
        self._bindings = store.collection(f"rolebindings.{_GROUP}")
        self._cluster_bindings = store.collection(f"clusterrolebindings.{_GROUP}")
        self._watched = {self._roles, self._cluster_roles, self._bindings, self._cluster_bindings}
        self._verdicts: dict[tuple[str, tuple[str, ...], RequestInfo], Verdict] = {}
        self._parsed: dict[tuple[str, str, int], tuple[Mapping[str, Any], ...]] = {}
        self._by_namespace: dict[str, list[_Binding]] | None = None
        store.listeners.append(self._on_change)

    def _on_change(self, collection: Collection, _: Change) -> None:
        if collection in self._watched:
            self._verdicts.clear()
            self._parsed.clear()
            self._by_namespace = None

    def decide(self, user: User, wanted: RequestInfo) -> Verdict:
        """Decide whether `user` may make the request `wanted`."""
        if "system:masters" in user.groups:
            return _ANYTHING
        key = (user.name, user.groups, wanted)
        found = self._verdicts.get(key)
        if found is None:
            if len(self._verdicts) >= _CACHE_LIMIT:
                self._verdicts.clear()
            found = self._verdicts[key] = self._evaluate(user, wanted)
        return found

    def _evaluate(self, user: User, wanted: RequestInfo) -> Verdict:
        for binding, subject, rules in self.rules_for(user, wanted.namespace):
            if any(_allows(rule, wanted) for rule in rules):
                return Verdict(True, _reason(binding, subject))
        return Verdict(False)

    def rules_for(
        self, user: User, namespace: str
    ) -> Iterator[tuple[_Binding, Mapping[str, Any], tuple[Mapping[str, Any], ...]]]:
        """Yield the bindings that name `user`, with the matching subject and the granted rules; cluster-wide ones first."""
        bindings = self._all_bindings()
        for scope in ("", namespace) if namespace else ("",):
            for binding in bindings.get(scope, ()):
                subject = next((each for each in binding.subjects if _is(user, each, binding.namespace)), None)
                if subject is not None:
                    yield binding, subject, self._rules(binding)

    def _all_bindings(self) -> dict[str, list[_Binding]]:
        if self._by_namespace is None:
            self._by_namespace = {}
            for collection in (self._cluster_bindings, self._bindings):
                for stored in collection.select():
                    body = stored.load()
                    role = body.get("roleRef") or {}
                    subjects = tuple(body.get("subjects") or ())
                    binding = _Binding(stored.namespace, stored.name, role.get("kind", ""), role.get("name", ""), subjects)
                    self._by_namespace.setdefault(stored.namespace, []).append(binding)
        return self._by_namespace

    def _rules(self, binding: _Binding) -> tuple[Mapping[str, Any], ...]:
        is_cluster = binding.role_kind == "ClusterRole"
        collection = self._cluster_roles if is_cluster else self._roles
        stored = collection.items.get(binding.role if is_cluster else f"{binding.namespace}/{binding.role}")
        if stored is None:
            return ()
        key = (collection.name, stored.key, stored.revision)
        rules = self._parsed.get(key)
        if rules is None:
            rules = self._parsed[key] = tuple(stored.load().get("rules") or ())
        return rules


def _is(user: User, subject: Mapping[str, Any], namespace: str) -> bool:
    match subject.get("kind"):
        case "User":
            return user.name == subject.get("name")
        case "Group":
            return subject.get("name") in user.groups
        case "ServiceAccount":
            return user.name == f"system:serviceaccount:{subject.get('namespace') or namespace}:{subject.get('name')}"
        case _:
            return False


def _allows(rule: Mapping[str, Any], wanted: RequestInfo) -> bool:
    verbs = rule.get("verbs") or _NONE
    if "*" not in verbs and wanted.verb not in verbs:
        return False
    if wanted.path and not wanted.is_resource:
        return any(_path_matches(each, wanted.path) for each in rule.get("nonResourceURLs") or _NONE)
    groups = rule.get("apiGroups") or _NONE
    if "*" not in groups and wanted.group not in groups:
        return False
    resources = rule.get("resources") or _NONE
    full = wanted.full_resource
    if not ("*" in resources or full in resources or (wanted.subresource and f"*/{wanted.subresource}" in resources)):
        return False
    names = rule.get("resourceNames") or _NONE
    return not names or wanted.name in names


def _path_matches(pattern: str, path: str) -> bool:
    return pattern in {"*", path} or (pattern.endswith("*") and path.startswith(pattern[:-1]))


def _reason(binding: _Binding, subject: Mapping[str, Any]) -> str:
    kind = "RoleBinding" if binding.namespace else "ClusterRoleBinding"
    name = f"{binding.name}/{binding.namespace}" if binding.namespace else binding.name
    who = str(subject.get("name"))
    if subject.get("kind") == "ServiceAccount":
        who = f"{who}/{subject.get('namespace') or binding.namespace}"
    return f'RBAC: allowed by {kind} "{name}" of {binding.role_kind} "{binding.role}" to {subject.get("kind")} "{who}"'


def denial(user: User, wanted: RequestInfo) -> status.StatusError:
    """Return the 403 error for a request that `user` may not make."""
    if wanted.path and not wanted.is_resource:
        message = f'User "{user.name}" cannot {wanted.verb} path "{wanted.path}"'
        return status.StatusError(403, "Forbidden", f"forbidden: {message}", details={})
    where = f'in the namespace "{wanted.namespace}"' if wanted.namespace else "at the cluster scope"
    message = f'User "{user.name}" cannot {wanted.verb} resource "{wanted.full_resource}" in API group "{wanted.group}" {where}'
    return status.forbidden(wanted.group, wanted.resource, wanted.name, message)
