"""Device selectors: the CEL expressions of device classes and requests, each evaluated once per device."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from pyroclast.api import records
from pyroclast.expressions import EvaluationError, ExpressionError, Program, Type, compile_expression
from pyroclast.expressions.values import BOOL, DYN
from pyroclast.resources import quantity
from pyroclast.resources.quantity import QuantityError

_QUOTED: Final = re.compile(r"""["']([^"']*)["']""")
_KINDS: Final = ("bool", "int", "string", "version")
_BUDGET: Final = 50_000


class BadSelector(ValueError):
    """An expression is invalid, or fails for a device."""


class Selectors:
    """The results by expression and device, for one session."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], bool | BadSelector] = {}

    def matches(self, selectors: Sequence[Mapping[str, Any]], driver: str, device: records.Device) -> bool:
        """Whether `device` of `driver` satisfies all `selectors`.

        Raises:
            BadSelector: an expression is invalid, or fails for this device.
        """
        return all(self._meets(str((each.get("cel") or {}).get("expression", "")), driver, device) for each in selectors)

    def _meets(self, expression: str, driver: str, device: records.Device) -> bool:
        slot = expression, id(device)
        found = self._known.get(slot)
        if found is None:
            try:
                found = _evaluated(expression, driver, device)
            except BadSelector as error:
                found = error
            self._known[slot] = found
        if isinstance(found, BadSelector):
            raise found
        return found


def _evaluated(expression: str, driver: str, device: records.Device) -> bool:
    program = _compiled(expression)
    if isinstance(program, str):
        raise BadSelector(program)
    domains = {text for text in _QUOTED.findall(expression) if "." in text}  # a domain without entries is empty, not missing
    try:
        value = program.evaluate({"device": _seen(driver, device, domains)}, _BUDGET)
    except (EvaluationError, QuantityError) as error:
        raise BadSelector(f"device {device.name}: {expression}: {error}") from error
    if not isinstance(value, bool):
        raise BadSelector(f"{expression}: is {value!r}, not true or false")
    return value


@lru_cache(maxsize=1024)
def _compiled(expression: str) -> Program | str:
    """Return the program, or the reason why it is invalid."""
    variables: Mapping[str, Type] = {"device": DYN}
    try:
        program = compile_expression(expression, variables)
    except ExpressionError as error:
        return f"{expression}: {error}"
    return program if program.type.kind in {BOOL.kind, DYN.kind} else f"{expression}: is of type {program.type}, not bool"


def _seen(driver: str, device: records.Device, domains: set[str]) -> dict[str, Any]:
    """Return the variable `device`: attributes and capacity by domain and name.

    The domain is that of the driver if none is given.
    """
    attributes: dict[str, dict[str, Any]] = {domain: {} for domain in (*domains, driver)}
    capacity: dict[str, dict[str, Any]] = {domain: {} for domain in (*domains, driver)}
    for name, entry in device.attributes.items():
        domain, own = _split(name, driver)
        attributes.setdefault(domain, {})[own] = next((entry[kind] for kind in _KINDS if kind in entry), None)
    for name, entry in device.capacity.items():
        domain, own = _split(name, driver)
        capacity.setdefault(domain, {})[own] = quantity.parse(str(entry.get("value", "0")))
    return {
        "driver": driver,
        "attributes": attributes,
        "capacity": capacity,
        "allowMultipleAllocations": device.allow_multiple_allocations,
    }


def _split(name: str, driver: str) -> tuple[str, str]:
    domain, slash, own = name.partition("/")
    return (domain, own) if slash else (driver, name)
