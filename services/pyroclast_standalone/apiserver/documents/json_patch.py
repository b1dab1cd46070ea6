"""JSON patch (RFC 6902), with the lenience of kube-apiserver, and JSON merge patch (RFC 7396)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from pyroclast.resources.go_text import go_kind
from pyroclast_standalone.apiserver.documents.errors import Json, MalformedPatch, Unprocessable


def merge(target: Json, patch: Json) -> Json:
    """Return `target` with `patch` merged in. The arguments are not modified. Unchanged values are shared with `target`."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = merge(result.get(name), value)
        else:
            result[name] = value
    return result


_TEXTS: Final = ("op", "path", "from")
_FIELDS: Final = (*_TEXTS, "value")
REFUSED: Final = "the server rejected our request due to an error in our request"
"""The API's message for every operation that does not apply."""

_Steps: TypeAlias = list[str]


class _DoesNotApply(Exception):
    pass


def unknown_fields(patch: Json) -> list[str]:
    """Return a sentence for each unknown field of an operation."""
    return [
        f'unknown field "[{index}].{name}"'
        for index, operation in enumerate(check(patch))
        for name in operation
        if name not in _FIELDS
    ]


def check(patch: Json) -> list[Mapping[str, Json]]:
    """Return the operations of `patch`."""
    if not isinstance(patch, list):
        kind = go_kind(patch)
        raise MalformedPatch(f"error decoding patch: json: cannot unmarshal {kind} into Go value of type []handlers.jsonPatchOp")
    for operation in patch:
        if not isinstance(operation, dict):
            kind = go_kind(operation)
            raise MalformedPatch(
                f"error decoding patch: json: cannot unmarshal {kind} into Go value of type handlers.jsonPatchOp"
            )
        for name in _TEXTS:
            if not isinstance(operation.get(name) or "", str):
                kind = go_kind(operation[name])
                raise MalformedPatch(
                    f"error decoding patch: json: cannot unmarshal {kind} into Go struct field jsonPatchOp.{name} of type string"
                )
    return patch


def _steps(pointer: Json) -> _Steps:
    if pointer == "":
        return []
    if not isinstance(pointer, str) or "/" not in pointer:
        raise _DoesNotApply
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _index(step: str, length: int, *, may_append: bool) -> int:
    if may_append and step == "-":
        return length
    if step.startswith("-") and step[1:].isdigit():
        position = length + int(step)
    elif step.isdigit():
        position = int(step)
    else:
        raise _DoesNotApply
    if not 0 <= position < length + may_append:
        raise _DoesNotApply
    return position


def _child(holder: Json, step: str) -> Json:
    if isinstance(holder, dict):
        if step not in holder:
            raise _DoesNotApply
        return holder[step]
    if isinstance(holder, list):
        return holder[_index(step, len(holder), may_append=False)]
    raise _DoesNotApply


def _read(document: Json, steps: _Steps) -> Json:
    for step in steps:
        document = _child(document, step)
    return document


def _edited(document: Json, steps: _Steps, edit: Callable[[Json, str], Json]) -> Json:
    """Return `document` with `edit` applied to the parent of the last step. Parents on the path are copied."""
    if not steps or not isinstance(document, dict | list):
        raise _DoesNotApply
    if len(steps) == 1:
        return edit(document, steps[0])
    return _with(document, steps[0], _edited(_child(document, steps[0]), steps[1:], edit))


def _add(document: Json, steps: _Steps, value: Json) -> Json:
    def edit(holder: Json, step: str) -> Json:
        copy = holder.copy()
        if isinstance(copy, dict):
            copy[step] = value
        else:
            copy.insert(_index(step, len(copy), may_append=True), value)
        return copy

    return _edited(document, steps, edit)


def _remove(document: Json, steps: _Steps) -> Json:
    def edit(holder: Json, step: str) -> Json:
        _child(holder, step)
        copy = holder.copy()
        del copy[_place(copy, step)]
        return copy

    return _edited(document, steps, edit)


def _replace(document: Json, steps: _Steps, value: Json) -> Json:
    return _edited(document, steps, lambda holder, step: _with(holder, step, value)) if steps else value


def _with(holder: Json, step: str, value: Json) -> Json:
    """Return a copy of an object or a list with another value at `step`."""
    copy = holder.copy()
    copy[_place(copy, step)] = value
    return copy


def _place(holder: Json, step: str) -> str | int:
    return step if isinstance(holder, dict) else _index(step, len(holder), may_append=False)


def _same(left: Json, right: Json) -> bool:
    """Return whether two values are equal as JSON: like `==`, but 1 and true differ."""
    return bool(left == right) and json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def _perform(document: Json, operation: Mapping[str, Json]) -> Json:
    steps = _steps(operation.get("path"))
    value = operation.get("value")
    match operation.get("op"):
        case "add":
            return _add(document, steps, value)
        case "remove":
            return _remove(document, steps)
        case "replace":
            return _replace(document, steps, value)
        case "move":
            source = _steps(operation.get("from"))
            moved = _read(document, source)
            return _add(_remove(document, source), steps, moved)
        case "copy":
            return _add(document, steps, _copied(document, _steps(operation.get("from"))))
        case "test" if _is_met(document, steps, value):
            return document
        case _:
            raise _DoesNotApply


def _copied(document: Json, source: _Steps) -> Json:
    if not source:
        raise _DoesNotApply
    holder = _read(document, source[:-1])
    return holder.get(source[-1]) if isinstance(holder, dict) else _child(holder, source[-1])


def _is_met(document: Json, steps: _Steps, wanted: Json) -> bool:
    try:
        return _same(_read(document, steps), wanted)
    except _DoesNotApply:
        return wanted is None


def apply(document: Json, patch: Json) -> Json:
    """Return `document` after the operations of `patch` in order. The document is not modified.

    Unchanged values are shared with it.
    """
    for operation in check(patch):
        try:
            document = _perform(document, operation)
        except _DoesNotApply:
            raise Unprocessable(REFUSED) from None
    return document
