"""Checks that affinity and spread constraints of pods have the structure that the API defines.

The API server rejects other structures. The scheduler still checks each shape once, as it reads these fields as plain JSON. A pod
that fails the check is left out before the session places other pods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_Check = Callable[[Any, str], None]


def check_affinity(affinity: object) -> None:
    """Check the affinity of a pod.

    Raises:
        ValueError: the affinity does not have the structure of the API; the text names the field.
    """
    _fields(
        affinity,
        "affinity",
        {
            "nodeAffinity": _kind({"nodeSelectorTerms": _each(_node_term)}, {"preference": _node_term}),
            "podAffinity": _kind(None, {"podAffinityTerm": _pod_term}),
            "podAntiAffinity": _kind(None, {"podAffinityTerm": _pod_term}),
        },
    )


def check_spread(constraints: object) -> None:
    """Check the topology spread constraints of a pod.

    Raises:
        ValueError: the constraints do not have the structure of the API; the text names the field.
    """
    form = {
        "topologyKey": _text,
        "maxSkew": _number,
        "minDomains": _number,
        "whenUnsatisfiable": _text,
        "labelSelector": _selector,
        "matchLabelKeys": _each(_text),
        "nodeAffinityPolicy": _text,
        "nodeTaintsPolicy": _text,
    }
    _each(lambda value, where: _fields(value, where, form))(constraints, "topologySpreadConstraints")


def _kind(required: Mapping[str, _Check] | None, preferred: Mapping[str, _Check]) -> _Check:
    def check(value: object, where: str) -> None:
        first: _Check = _each(_pod_term) if required is None else lambda inner, at: _fields(inner, at, required)
        second = _each(lambda inner, at: _fields(inner, at, {"weight": _number, **preferred}))
        _fields(value, where, {_REQUIRED: first, _PREFERRED: second})

    return check


def _pod_term(value: object, where: str) -> None:
    form: Mapping[str, _Check] = {
        "topologyKey": _text,
        "labelSelector": _selector,
        "namespaceSelector": _selector,
        "namespaces": _each(_text),
        "matchLabelKeys": _each(_text),
        "mismatchLabelKeys": _each(_text),
    }
    _fields(value, where, form)


def _node_term(value: object, where: str) -> None:
    _fields(value, where, {"matchExpressions": _each(_expression), "matchFields": _each(_expression)})


def _selector(value: object, where: str) -> None:
    _fields(value, where, {"matchLabels": _texts, "matchExpressions": _each(_expression)})


def _expression(value: object, where: str) -> None:
    _fields(value, where, {"key": _text, "operator": _text, "values": _each(_text)})


def _fields(value: object, where: str, form: Mapping[str, _Check]) -> None:
    """Check an object, which may be missing, and those of its fields that `form` names."""
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise ValueError(f"{where}: an object is wanted, not {value!r}"[:200])  # noqa: TRY004
    for name, check in form.items():
        if value.get(name) is not None:
            check(value[name], f"{where}.{name}")


def _each(check: _Check) -> _Check:
    def check_all(value: object, where: str) -> None:
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise ValueError(f"{where}: a list is wanted, not {value!r}"[:200])  # noqa: TRY004
        for i, each in enumerate(value):
            if each is None:
                raise ValueError(f"{where}[{i}]: must not be null")
            check(each, f"{where}[{i}]")

    return check_all


def _texts(value: object, where: str) -> None:
    if not isinstance(value, Mapping) or not all(isinstance(each, str) for each in value.values()):
        raise ValueError(f"{where}: an object of strings is wanted, not {value!r}"[:200])


def _text(value: object, where: str) -> None:
    if not isinstance(value, str):
        raise ValueError(f"{where}: a string is wanted, not {value!r}"[:200])  # noqa: TRY004


def _number(value: object, where: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**31) <= value < 2**31:
        raise ValueError(f"{where}: a number is wanted, not {value!r}"[:200])
