"""Patches the spec of a template for one flow by Kubernetes' strategic merge, with the documented rules of flows.

The rules form a tree. For each field of a Job's spec, the tree says how a value is merged. A value is replaced, merged as a map,
or merged as a list whose items are matched by a key. A field that the tree does not name is replaced in a Job, and merged by its
JSON type in a pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import msgspec

Json: TypeAlias = Any

_DIRECTIVE: Final = "$patch"

DEEPEST: Final = 100
"""The most nesting levels of a patch: several times the depth of a Job, and well below the limit of JSON encoders."""


class PatchError(ValueError):
    """A patch that cannot be applied. `path`: the path of the faulty field, from the root of the patch."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.path = path
        self.problem = problem


@dataclass(frozen=True, slots=True)
class _Replace:
    """The value of the patch replaces the old value."""


@dataclass(frozen=True, slots=True)
class _Map:
    """A map that is merged key by key; `rest` is the rule of the keys that `keys` does not name."""

    keys: Mapping[str, _Rule] = field(default_factory=dict)
    rest: _Rule = field(default_factory=_Replace)


@dataclass(frozen=True, slots=True)
class _Items:
    """A list whose items are matched by the field `key`; matching items are merged by `item`, others are appended.

    Of several matches, the item whose field `second` agrees is used. `default` names an item of the template that has no key, by
    its index. With `default` or `is_only`, an item of the patch without a key matches the only item of the list.
    """

    key: str
    item: _Rule
    second: str = ""
    default: str = ""
    is_only: bool = False


_Rule: TypeAlias = "_Replace | _Map | _Items"

_REPLACE: Final = _Replace()


class _Deep(_Map):
    """Maps are merged recursively; every other value is replaced."""


_DEEP: Final = _Deep()
_CONTAINER: Final = _Map(
    {
        "env": _Items("name", _REPLACE),
        "volumeMounts": _Items("mountPath", _DEEP),
        "volumeDevices": _Items("devicePath", _DEEP),
        "ports": _Items("containerPort", _DEEP, second="protocol"),
        "resources": _DEEP,
        "livenessProbe": _REPLACE,
        "readinessProbe": _REPLACE,
        "args": _REPLACE,
        "command": _REPLACE,
    },
    rest=_DEEP,
)
_POD: Final = _Map(
    {
        "containers": _Items("name", _CONTAINER, is_only=True),
        "initContainers": _Items("name", _CONTAINER, is_only=True),
        "ephemeralContainers": _Items("name", _CONTAINER),
        "volumes": _Items("name", _REPLACE),
        "tolerations": _Items("key", _DEEP),
        "hostAliases": _Items("ip", _DEEP),
        "imagePullSecrets": _Items("name", _DEEP),
        "topologySpreadConstraints": _Items("topologyKey", _DEEP, second="whenUnsatisfiable"),
        "schedulingGates": _Items("name", _DEEP),
        "resourceClaims": _Items("name", _DEEP),
        "affinity": _REPLACE,
        "securityContext": _REPLACE,
    },
    rest=_DEEP,
)
_TEMPLATE: Final = _Map({"metadata": _DEEP, "spec": _POD}, rest=_DEEP)
_TASK: Final = _Map({"template": _TEMPLATE})
_JOB: Final = _Map(
    {"plugins": _Map(), "volumes": _Items("mountPath", _DEEP), "tasks": _Items("name", _TASK, default="default{}")}
)


def decoded(raw: bytes) -> Json:
    """Return a patch. PatchError: it is nested too deeply."""
    try:
        return msgspec.json.decode(raw)
    except RecursionError:
        raise PatchError("patch", "is nested too deeply") from None


def patched(template: Mapping[str, Json], patch: Json) -> dict[str, Json]:
    """Return the spec `template` of a JobTemplate, merged with the `patch` of a flow entry.

    The changes are in `patch.spec`. If `patch.spec` is not set, they are in `patch.jobSpec`.

    Raises PatchError: the patch does not fit the template.
    """
    if not isinstance(patch, Mapping):
        raise PatchError("patch", f"must be an object, not {_kind(patch)}")
    name = "spec" if patch.get("spec") is not None else "jobSpec"
    changes = patch.get(name)
    if changes is None:
        return dict(template)
    if not isinstance(changes, Mapping):
        raise PatchError(f"patch.{name}", f"must be an object, not {_kind(changes)}")
    return merged(template, changes, f"patch.{name}")


def merged(spec: Mapping[str, Json], patch: Mapping[str, Json], path: str = "") -> dict[str, Json]:
    """Return `spec` of a Job with `patch` merged in; the arguments stay unchanged. A null in the patch removes the field.

    Raises PatchError: the patch has the wrong shape, or an item lacks the key that it needs.
    """
    if _is_deeper(patch, DEEPEST):
        raise PatchError(path, f"must not be nested deeper than {DEEPEST} levels")
    result = _merge(_JOB, spec, patch, path)
    return result if isinstance(result, dict) else {}


def _merge(rule: _Rule, old: Json, new: Json, path: str) -> Json:
    if isinstance(rule, _Replace) or new is None:
        return _clean(new)
    if isinstance(rule, _Items):
        if not isinstance(new, list):
            raise PatchError(path, f"must be a list, not {_kind(new)}")
        return _merge_items(rule, old if isinstance(old, list) else [], new, path)
    if not isinstance(new, Mapping):
        if isinstance(rule, _Deep):
            return _clean(new)
        raise PatchError(path, f"must be an object, not {_kind(new)}")
    return _merge_map(rule, old if isinstance(old, Mapping) else {}, new, path)


def _merge_map(rule: _Map, old: Mapping[str, Json], new: Mapping[str, Json], path: str) -> dict[str, Json]:
    match new.get(_DIRECTIVE):
        case None | "merge":
            result = dict(old)
        case "replace":
            result = {}
        case "delete":
            return {}
        case other:
            raise PatchError(_at(path, _DIRECTIVE), f'"{other}" is none of merge, replace, delete')
    rest = rule if isinstance(rule, _Deep) else rule.rest
    for name, value in new.items():
        if name == _DIRECTIVE:
            continue
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merge(rule.keys.get(name, rest), result.get(name), value, _at(path, name))
    return result


def _merge_items(rule: _Items, old: list[Json], new: list[Json], path: str) -> list[Json]:
    result = list(old)
    items = [item for item in new if not (isinstance(item, Mapping) and set(item) == {_DIRECTIVE})]
    if any(item.get(_DIRECTIVE) == "replace" for item in new if isinstance(item, Mapping)):
        result = []
    for index, item in enumerate(items):
        where = f"{path}[{index}]"
        if not isinstance(item, Mapping):
            raise PatchError(where, f"must be an object, not {_kind(item)}")
        position = _position(rule, result, item, where)
        body = {name: value for name, value in item.items() if name != _DIRECTIVE}
        if item.get(_DIRECTIVE) == "delete":
            if position is not None:
                del result[position]
        elif position is None:
            result.append(_merge(rule.item, None, body, where))
        else:
            result[position] = _merge(rule.item, result[position], body, where)
    return result


def _position(rule: _Items, items: list[Json], item: Mapping[str, Json], where: str) -> int | None:
    """Return the index of the item that `item` matches; None when no item matches."""
    key = item.get(rule.key)
    if key is None and (rule.default or rule.is_only):
        if len(items) == 1:
            return 0
        raise PatchError(where, f"needs a {rule.key}, because there are {len(items)} to choose from")
    named = [(index, other.get(rule.key)) for index, other in enumerate(items) if isinstance(other, Mapping)]
    matches = [index for index, own in named if (rule.default.format(index) if rule.default and not own else own) == key]
    if rule.second and item.get(rule.second) is not None:
        agreeing = [index for index in matches if items[index].get(rule.second) in (item[rule.second], None)]
        return agreeing[0] if agreeing else None
    return matches[0] if matches else None


def _clean(value: Json) -> Json:
    if isinstance(value, Mapping):
        return {name: _clean(item) for name, item in value.items() if item is not None and name != _DIRECTIVE}
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return value


def _is_deeper(value: Json, levels: int) -> bool:
    """Whether objects and lists are nested deeper than `levels`. The check goes level by level, to avoid deep recursion."""
    nested = [value]
    for _ in range(levels):
        inner = (each.values() if isinstance(each, Mapping) else each for each in nested)
        nested = [each for values in inner for each in values if isinstance(each, (Mapping, list))]
    return bool(nested)


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _kind(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
    return "an object"
