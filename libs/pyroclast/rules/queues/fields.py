"""Defaults and rules for a Queue that depend only on its own fields."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.budgets import budget_faults
from pyroclast.api.keys import HIERARCHY, HIERARCHY_WEIGHTS
from pyroclast.api.person_limits import PersonLimitsError, read_person_limits
from pyroclast.resources.quantity import Format, from_millis, from_value
from pyroclast.rules.errors import FieldError, forbidden, invalid
from pyroclast.rules.lookups import ROOT_QUEUE, QueueView
from pyroclast.rules.names import dns_label
from pyroclast.rules.podspecs.requirements import COUNTED, HUGE_PAGES, is_extended
from pyroclast.rules.values import Json, amount, mapping, text
from pyroclast.rules.verdicts import ALLOWED, Patch, Verdict, field_verdict

PATH: Final = f"metadata.annotations[{keys.QUEUE_BUDGET}]"
RECORDED: Final = (keys.QUEUE_BUDGET_SPENT, keys.QUEUE_PAST_USAGE)
"""Annotations that only the recorder may write."""

WRITTEN_BY_RECORDER: Final = "the recorder writes it; leave it as it is"
RECORDERS: Final = "-recorder"
"""The end of the names of the recorder's ServiceAccounts; the beginning is the name of the release."""


def check_budget(text: str | None) -> Iterator[FieldError]:
    """Yield the faults of the budget annotation, each with the path of the field inside the annotation."""
    for fault in budget_faults(text) if text is not None else ():
        yield invalid(f"{PATH}.{fault.path}" if fault.path else PATH, fault.value, fault.text)


def check_namespaces(names: Collection[str] | None) -> Iterator[FieldError]:
    """Yield the first name in the annotation of the admitted namespaces that is not the name of a namespace."""
    for name in sorted(names or ()):
        if dns_label(name):
            why = "write names of namespaces, separated by commas, or remove the annotation to admit every namespace"
            yield invalid(path_of(keys.QUEUE_NAMESPACES), name, why)
            return


def check_person_limits(annotation: str | None) -> Iterator[FieldError]:
    """Yield the fault of the annotation with the limits of each person."""
    try:
        if annotation is not None:
            read_person_limits(annotation)
    except PersonLimitsError as error:
        yield invalid(path_of(keys.QUEUE_PERSON_LIMITS), annotation, str(error))


def is_recorder(user: str, namespace: str) -> bool:
    """Whether a user is the recorder, which runs in `namespace`."""
    return bool(namespace) and user.startswith(f"system:serviceaccount:{namespace}:") and user.endswith(RECORDERS)


def path_of(key: str) -> str:
    """Return the path of an annotation."""
    return f"metadata.annotations[{key}]"


def validate_recorded(queue: Mapping[str, Any], old: Mapping[str, Any] | None, *, is_from_recorder: bool) -> Verdict:
    """Return the verdict on a request that writes the queue's past use. `old` is None for a creation."""
    if is_from_recorder:
        return ALLOWED
    now, before = _annotations(queue), _annotations(old or {})
    changed = [key for key in RECORDED if now.get(key) != before.get(key)]
    return field_verdict([forbidden(path_of(key), WRITTEN_BY_RECORDER) for key in changed]) if changed else ALLOWED


def _annotations(queue: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(mapping(queue.get("metadata")).get("annotations"))


def default(queue: Mapping[str, Any]) -> Patch:
    """Return the operations that set the defaults of `queue`. Values of a wrong type stay, because the schema reports them."""
    patch = _rooted(_annotations(queue))
    spec = queue.get("spec")
    if spec is None:
        return [*patch, {"op": "add", "path": "/spec", "value": {"reclaimable": True, "weight": 1}}]
    if not isinstance(spec, dict):
        return patch
    if spec.get("reclaimable") is None:
        patch.append({"op": "add", "path": "/spec/reclaimable", "value": True})
    weight = spec.get("weight")
    if weight is None or (type(weight) is int and weight == 0):
        patch.append({"op": "add", "path": "/spec/weight", "value": 1})
    return patch


def _rooted(annotations: Mapping[str, Any]) -> Patch:
    """Return the operations that make the path of the hierarchy start at the root."""
    hierarchy, weights = text(annotations.get(HIERARCHY)), text(annotations.get(HIERARCHY_WEIGHTS))
    if not hierarchy or not weights or hierarchy.split("/")[0] == ROOT_QUEUE:
        return []
    return [
        {"op": "add", "path": f"/metadata/annotations/{key.replace('/', '~1')}", "value": value}
        for key, value in ((HIERARCHY, f"{ROOT_QUEUE}/{hierarchy}"), (HIERARCHY_WEIGHTS, f"1/{weights}"))
    ]


_COUNTS = "count/"
_KUBERNETES = "kubernetes.io/"
_VOLUMES = "attachable-volumes-"


def amounts_of(resources: Mapping[str, Any]) -> dict[str, int]:
    """Return the amounts of a resource list that queues count: memory in bytes, pods as a number, all others in thousandths.

    cpu and memory are always included.
    """
    amounts = {"cpu": 0, "memory": 0}
    for name, value in resources.items():
        given = amount(value)
        if given is None or name.startswith(_COUNTS):
            continue
        if name in ("memory", "pods"):
            amounts[name] = given.value
        elif name in ("cpu", "ephemeral-storage") or is_extended(name) or name.startswith((HUGE_PAGES, _KUBERNETES, _VOLUMES)):
            amounts[name] = given.millis
    return amounts


def described(amounts: Mapping[str, int]) -> str:
    """Return amounts in the form of Volcano's messages: cpu and memory, then the others by name."""
    names = ["cpu", "memory", *sorted(amounts.keys() - {"cpu", "memory"})]
    return ", ".join(f"{name} {amounts[name]}.00" for name in names)


def exceeds(whole: Mapping[str, int], limit: Mapping[str, int]) -> bool:
    """Whether `whole` exceeds `limit` in any dimension; a dimension without a limit has the limit 0."""
    return any(value > limit.get(name, 0) for name, value in whole.items())


def shown(name: str, value: int) -> str:
    """Return the amount of one resource in the form that messages use."""
    if name == "cpu":
        return str(from_millis(value))
    return str(from_value(value, Format.BINARY_SI)) if name == "memory" else f"{value}.00"


_STATES = ("", "Open", "Closed")


def check_resources(queue: QueueView) -> Iterator[FieldError]:
    """Yield the faults of amounts, and of limits that violate guarantee <= deserved <= capability."""
    for path, resources in (
        ("spec.capability", queue.capability),
        ("spec.deserved", queue.deserved),
        ("spec.guarantee.resource", queue.guarantee),
    ):
        for name, value in resources.items():
            yield from _check_amount(f"{path}.{name}", name, value)
    yield from _check_guarantee(queue)
    yield from _check_capability(queue.deserved, queue.capability)


def check_state(state: str) -> Iterator[FieldError]:
    """Yield a fault when the state is neither Open nor Closed; the controller sets all other states."""
    if state not in _STATES:
        yield invalid("spec.state", state, "queue state must be in [Open Closed]")


def _check_amount(path: str, name: str, value: Json) -> Iterator[FieldError]:
    given = amount(value)
    if given is None:
        return
    if given.millis < 0:
        yield invalid(path, str(given), "must be greater than or equal to 0")
    if given.millis % 1000 and (name in COUNTED or is_extended(name)):
        yield invalid(path, str(given), "must be an integer")


def _check_guarantee(queue: QueueView) -> Iterator[FieldError]:
    for name, value in queue.guarantee.items():
        guarantee, deserved = amount(value), amount(queue.deserved.get(name))
        path = f"spec.deserved.{name}"
        if guarantee is None:
            continue
        if deserved is None:
            yield invalid(path, "<nil>", f"deserved[{name}] must be >= guarantee[{name}]={guarantee}")
        elif deserved < guarantee:
            yield invalid(path, str(deserved), f"deserved[{name}]={deserved} must be >= guarantee[{name}]={guarantee}")


def _check_capability(deserved: Mapping[str, Any], capability: Mapping[str, Any]) -> Iterator[FieldError]:
    for name, value in deserved.items():
        wanted, limit = amount(value), amount(capability.get(name))
        if wanted is not None and limit is not None and wanted > limit:
            path = f"spec.deserved.{name}"
            yield invalid(path, str(wanted), f"deserved[{name}]={wanted} must be <= capability[{name}]={limit}")
