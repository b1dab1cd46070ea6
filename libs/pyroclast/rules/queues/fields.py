"""Rules for a Queue that depend only on its own fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyroclast.rules.amounts import amount
from pyroclast.rules.errors import FieldError, invalid
from pyroclast.rules.lookups import QueueView
from pyroclast.rules.podspecs.requirements import COUNTED, is_extended
from pyroclast.rules.values import Json

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
