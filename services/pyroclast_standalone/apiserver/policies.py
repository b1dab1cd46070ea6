"""Admission policies: ValidatingAdmissionPolicy and MutatingAdmissionPolicy with their bindings and parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import orjson

from . import status
from .admission import Review
from .documents.cel import CompileError
from .documents.errors import DocumentError
from .documents.policies import ConditionError, Decision, MutatingPolicy, ValidatingPolicy
from .documents.selectors import from_label_selector
from .expressions import Expressions
from .hooks import rules_match, selected
from .registry import Registry, Resource
from .store import Change, Collection, Store

__all__ = ["Policies"]

_GROUP: Final = "admissionregistration.k8s.io"
_NEVER: Final = {
    f"{kind}{what}.{_GROUP}"
    for kind in ("validating", "mutating")
    for what in ("admissionpolicies", "admissionpolicybindings", "webhookconfigurations")
}
_CODES: Final = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}
_FAILURES: Final = "validation.policy.admission.k8s.io/validation_failure"
P = TypeVar("P", ValidatingPolicy, MutatingPolicy)


@dataclass(frozen=True, slots=True, eq=False)
class _Bound(Generic[P]):
    """A policy with its bindings. `broken` says why it cannot be evaluated."""

    name: str
    spec: Mapping[str, Any]
    policy: P | None
    bindings: tuple[Mapping[str, Any], ...]
    broken: str = ""

    @property
    def is_strict(self) -> bool:
        """Whether a failure refuses the write."""
        return (self.spec.get("failurePolicy") or "Fail") == "Fail"


@dataclass(frozen=True, slots=True)
class _Case(Generic[P]):
    """A policy that is to look at a write, under one binding: the variables, or why there are none."""

    bound: _Bound[P]
    binding: Mapping[str, Any]
    seen: Resource
    variables: dict[str, Any]
    problem: str = ""

    @property
    def binding_name(self) -> str:
        """Name of the binding."""
        return str(self.binding["metadata"]["name"])


class _Known(Generic[P]):
    """The policies of one kind, compiled when they change."""

    def __init__(self, store: Store, registry: Registry, kind: str, make: type[P]) -> None:
        self._policies = store.collection(f"{kind}admissionpolicies.{_GROUP}")
        self._bindings = store.collection(f"{kind}admissionpolicybindings.{_GROUP}")
        self._namespaces = store.collection("namespaces")
        self._registry = registry
        self._make: type[P] = make
        self._bound: list[_Bound[P]] | None = None
        store.listeners.append(self._on_change)

    def _on_change(self, collection: Collection, _: Change) -> None:
        if collection is self._policies or collection is self._bindings:
            self._bound = None

    def cases(self, review: Review, expressions: Expressions) -> Iterator[_Case[P]]:
        """What has to look at the write, policies by name, each once for every parameter of every binding."""
        if not self._policies.items or review.resource.qualified in _NEVER:
            return
        if self._bound is None:
            self._bound = list(self._compile())
        for bound in self._bound:
            seen = self._matches(bound.spec.get("matchConstraints") or {}, review)
            if seen is None:
                continue
            for binding in bound.bindings:
                own = binding["spec"].get("matchResources")
                if own and self._matches(own, review, every=True) is None:
                    continue
                for params, problem in self._params(bound.spec, binding["spec"], review):
                    variables = {**expressions.variables(review, seen), "params": params}
                    yield _Case(bound, binding, seen, variables, problem)

    def _compile(self) -> Iterator[_Bound[P]]:
        bindings: dict[str, list[dict[str, Any]]] = {}
        for stored in self._bindings.select():
            binding = stored.load()
            bindings.setdefault(binding["spec"].get("policyName", ""), []).append(binding)
        for stored in self._policies.select():
            if stored.name not in bindings:
                continue
            document = stored.load()
            try:
                policy, broken = self._make(document), ""
            except CompileError as error:
                policy, broken = None, str(error)
            yield _Bound(stored.name, document["spec"], policy, tuple(bindings[stored.name]), broken)

    def _matches(self, constraints: Mapping[str, Any], review: Review, *, every: bool = False) -> Resource | None:
        """The resource under which the constraints want the write; without rules, `every` write is wanted."""
        exact = constraints.get("matchPolicy") == "Exact"
        rules = tuple(constraints.get("resourceRules") or ())
        if rules:
            seen = _by_rules(rules, review, self._registry, exact=exact)
        else:
            seen = review.resource if every else None
        excluded = tuple(constraints.get("excludeResourceRules") or ())
        if seen is None or (excluded and _by_rules(excluded, review, self._registry, exact=exact) is not None):
            return None
        namespaces = from_label_selector(constraints.get("namespaceSelector") or {})
        objects = from_label_selector(constraints.get("objectSelector") or {})
        return seen if selected(namespaces, objects, review, self._namespaces) else None

    def _params(
        self, spec: Mapping[str, Any], binding: Mapping[str, Any], review: Review
    ) -> list[tuple[dict[str, Any] | None, str]]:
        """The parameters of a binding, each with what is wrong with it; one None where the policy has none."""
        kind, reference = spec.get("paramKind"), binding.get("paramRef")
        if not kind:
            return [(None, "")]
        if not reference:
            return [(None, "")]
        group, _, version = kind["apiVersion"].rpartition("/")
        resource = self._registry.of_kind(group, version, kind["kind"])
        if resource is None:
            return [(None, f"failed to find resource referenced by paramKind: '{kind['apiVersion']}, Kind={kind['kind']}'")]
        namespace = (reference.get("namespace") or review.namespace) if resource.namespaced else ""
        if reference.get("name"):
            key = f"{namespace}/{reference['name']}" if resource.namespaced else reference["name"]
            stored = resource.collection.items.get(key)
            found = [stored] if stored is not None else []
        else:
            chosen = from_label_selector(reference.get("selector") or {})
            found = [each for each in resource.collection.select(namespace) if chosen.matches(each.labels)]
        if found:
            return [(each.load(), "") for each in found]
        if reference.get("parameterNotFoundAction") == "Allow":
            return []
        return [(None, "no params found for policy binding with `Deny` parameterNotFoundAction")]


class Policies:
    """The two admission steps of policies."""

    def __init__(self, store: Store, registry: Registry, expressions: Expressions) -> None:
        self._expressions = expressions
        self._validating = _Known(store, registry, "validating", ValidatingPolicy)
        self._mutating = _Known(store, registry, "mutating", MutatingPolicy)

    # --- validating ---------------------------------------------------------------------------------------------

    async def validate(self, review: Review) -> None:
        """Ask every validating policy; the first refusal counts, the others are among the causes.

        Raises:
            StatusError: one refuses.
        """
        refused: list[tuple[str, str]] = []
        for case in self._validating.cases(review, self._expressions):
            for decision in _decisions(case):
                if decision.is_error and not case.bound.is_strict:
                    continue
                where = f"ValidatingAdmissionPolicy '{case.bound.name}' with binding '{case.binding_name}'"
                actions = case.binding["spec"].get("validationActions") or ["Deny"]
                if "Warn" in actions:
                    review.context.warn(f"Validation failed for {where}: {decision.message}")
                if "Audit" in actions:
                    _note(review, case, decision)
                if "Deny" in actions:
                    refused.append((f"{where} denied request: {decision.message}", decision.reason))
        if refused:
            raise _refusal(review, *refused[0])

    # --- mutating -----------------------------------------------------------------------------------------------

    async def mutate(self, review: Review) -> None:
        """Let every mutating policy change the object; those that others overtook and want it are asked once more.

        Raises:
            StatusError: one cannot be evaluated, and may not fail.
        """
        if review.body is None:
            return
        asked: list[str] = []
        overtaken: set[str] = set()
        for case in self._mutating.cases(review, self._expressions):
            if self._mutate_by(case, review):
                overtaken.update(asked)
            if case.bound.spec.get("reinvocationPolicy") == "IfNeeded":
                asked.append(case.bound.name)
        if overtaken:
            for case in self._mutating.cases(review, self._expressions):
                if case.bound.name in overtaken:
                    self._mutate_by(case, review)

    def _mutate_by(self, case: _Case[MutatingPolicy], review: Review) -> bool:
        """Apply one policy; whether it changed the object."""
        body = review.body
        resource = review.resource
        if body is None or review.show is not None:
            return False
        variables = {**case.variables, "object": self._expressions.shown(review, body, case.seen)}
        try:
            policy = _ready(case)
            if not policy.matches(variables):
                return False
            document: dict[str, Any] = orjson.loads(orjson.dumps(policy.mutated(variables, resource.strategy.schema)))
            document["apiVersion"] = resource.api_version
            if document == body:
                return False
            resource.strategy.decode(document)
        except (ConditionError, DocumentError) as error:
            if not case.bound.is_strict:
                return False
            text = f"policy '{case.bound.name}' with binding '{case.binding_name}' denied request: {error}"
            raise status.StatusError(403, "Invalid", text, details=_details(review, text)) from None
        review.body = document
        return True


def _ready(case: _Case[P]) -> P:
    """The policy of a case.

    Raises:
        ConditionError: it does not compile, or lacks its parameters.
    """
    if case.problem:
        raise ConditionError(f"failed to configure binding: {case.problem}")
    if case.bound.policy is None:
        raise ConditionError(f"failed to configure policy: {case.bound.broken}")
    return case.bound.policy


def _decisions(case: _Case[ValidatingPolicy]) -> list[Decision]:
    try:
        policy = _ready(case)
        return policy.refusals(case.variables) if policy.matches(case.variables) else []
    except ConditionError as error:
        return [Decision(str(error), is_error=True)]


def _by_rules(rules: tuple[Mapping[str, Any], ...], review: Review, registry: Registry, *, exact: bool) -> Resource | None:
    """The resource under which a rule wants the write; a rule may be for some names only."""
    named = tuple(rule for rule in rules if not rule.get("resourceNames") or review.name in rule["resourceNames"])
    return rules_match(named, review, registry, exact=exact) if named else None


def _note(review: Review, case: _Case[ValidatingPolicy], decision: Decision) -> None:
    entry = {
        "message": decision.message,
        "policy": case.bound.name,
        "binding": case.binding_name,
        "validationActions": case.binding["spec"].get("validationActions"),
    }
    notes = orjson.loads(review.context.annotations.get(_FAILURES, "[]"))
    review.context.annotations[_FAILURES] = orjson.dumps([*notes, entry]).decode()


def _refusal(review: Review, message: str, reason: str) -> status.StatusError:
    resource = review.resource
    error = status.forbidden(resource.group, resource.plural, review.name, message)
    return status.StatusError(_CODES.get(reason, 422), reason, error.message, details=_details(review, message))


def _details(review: Review, message: str) -> dict[str, Any]:
    resource = review.resource
    details = {"name": review.name, "group": resource.group, "kind": resource.plural, "causes": [{"message": message}]}
    return {name: value for name, value in details.items() if value}
