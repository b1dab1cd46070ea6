"""Amounts of resources: `{name: number}` in stored units, and the comparisons that the rules are written in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

EPSILON = Fraction(1, 10)
ALWAYS = ("cpu", "memory")
FACTORS = {"": 1, "m": Fraction(1, 1000), "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def number(text) -> Fraction:
    """A quantity as the API writes it."""
    digits, suffix = re.fullmatch(r"([0-9.]+)(\w*)", str(text)).groups()
    return Fraction(digits) * FACTORS[suffix]


def amounts(listed: Mapping | None) -> dict:
    """A resource list in stored units: cpu and other resources in thousandths, memory in bytes, pods as they are."""
    found = {}
    for name, text in (listed or {}).items():
        if name.startswith(("count/", "requests.", "limits.")):
            continue
        found[name] = number(text) * (1 if name in {"memory", "pods"} else 1000)
    return found


def plus(*each) -> dict:
    total = {}
    for one in each:
        for name, amount in one.items():
            total[name] = total.get(name, 0) + amount
    return total


def minus(left, right) -> dict:
    return plus(left, {name: -amount for name, amount in right.items()})


def close_or_less(a, b) -> bool:
    return a < b or abs(a - b) < EPSILON


def less_equal(left, right) -> bool:
    """In cpu, memory and all that `left` names; what `right` lacks is zero."""
    return all(close_or_less(left.get(name, 0), right.get(name, 0)) for name in {*ALWAYS, *left})


def exceeding(left, right, wanted, capability=()) -> list[str]:
    """What of `wanted` exceeds: names of which something is wanted and left is more than right, to the last bit.

    Pods count only where `capability`, that of a queue, names them, and against that number.
    """
    limit = {**right, "pods": capability["pods"]} if "pods" in capability else right
    names = [name for name, amount in wanted.items() if amount > 0 and (name != "pods" or name in capability)]
    return [name for name in names if left.get(name, 0) > limit.get(name, 0)]


def partly_less_equal(left, right, wanted) -> bool:
    """Whether one wanted dimension is within; those of which both sides have nothing do not count."""
    for name, amount in wanted.items():
        if amount <= 0 or name == "pods":
            continue
        if left.get(name, 0) < EPSILON and right.get(name, 0) < EPSILON:
            continue
        if close_or_less(left.get(name, 0), right.get(name, 0)):
            return True
    return False


def exceeds_relevant(left, right, wanted) -> bool:
    """Whether one wanted dimension that `right` speaks of is exceeded."""
    for name, amount in wanted.items():
        if amount <= 0 or name == "pods":
            continue
        speaks = right.get(name, 0) >= EPSILON if name in ALWAYS else name in right
        if speaks and left.get(name, 0) > right[name]:
            return True
    return False


def exceeded(left, right) -> dict:
    return {name: max(left.get(name, 0) - right.get(name, 0), 0) for name in {*left, *right}}


def capped(left, right, *, missing_is_zero: bool) -> dict:
    """`left`, at most `right`."""
    found = {}
    for name, amount in left.items():
        if name in right or name in ALWAYS or missing_is_zero:
            found[name] = min(amount, right.get(name, 0))
        else:
            found[name] = amount
    return found


def larger(left, right) -> dict:
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in {*left, *right}}


def names(given) -> set[str]:
    return {name for name, amount in given.items() if amount >= EPSILON}


def is_empty(given) -> bool:
    return not names(given) - {"pods"}


def share(part, whole) -> Fraction:
    if whole == 0:
        return Fraction(0 if part == 0 else 1)
    return Fraction(part) / Fraction(whole)
