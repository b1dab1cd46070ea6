"""Macros: expressions over the items of a list or map, tests for presence, local names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from pyroclast_standalone.apiserver.documents.values import Json

from . import syntax
from .errors import CelError
from .values import NONE, Optional, overload, type_name

__all__ = ["MACROS", "bound_names", "compile_macro"]

_Scope: TypeAlias = dict[str, Json]
_Eval: TypeAlias = Callable[[_Scope], Json]
_Compile: TypeAlias = Callable[[syntax.Node], _Eval]
_Pairs: TypeAlias = Callable[[Json], Iterator[tuple[Json, ...]]]

MACROS: Final[Mapping[str, tuple[int, ...]]] = {
    "all": (2, 3),
    "exists": (2, 3),
    "exists_one": (2, 3),
    "existsOne": (2, 3),
    "filter": (2,),
    "map": (2, 3),
    "transformList": (3, 4),
    "transformMap": (3, 4),
    "transformMapEntry": (3, 4),
    "optMap": (2,),
    "optFlatMap": (2,),
    "sortBy": (2,),
}
"""Macros called on a value, with how many arguments each takes."""

_PAIRS: Final = {"transformList", "transformMap", "transformMapEntry"}
_PREDICATES: Final = {"all", "exists", "exists_one", "existsOne"}


def bound_names(node: syntax.Call) -> tuple[str, ...]:
    """The names that a macro binds; empty when the call is no macro."""
    if node.target is None or len(node.args) not in MACROS.get(node.function, ()):
        return ()
    count = 2 if node.function in _PAIRS or (node.function in _PREDICATES and len(node.args) == 3) else 1
    names = [each.name for each in node.args[:count] if isinstance(each, syntax.Ident)]
    return tuple(names) if len(names) == count else ()


def _no_range(value: Json) -> CelError:
    name = type_name(value)
    return CelError(f"got 'types.{name.capitalize()}', expected iterable type")


def _singles(value: Json) -> Iterator[tuple[Json, ...]]:
    if not isinstance(value, list | dict):
        raise _no_range(value)
    for item in value:
        yield (item,)


def _doubles(value: Json) -> Iterator[tuple[Json, ...]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)
    else:
        raise _no_range(value)


def _truth(value: Json) -> bool:
    if value.__class__ is not bool:
        raise overload()
    return bool(value)


def _scopes(scope: _Scope, names: tuple[str, ...], pairs: _Pairs, value: Json) -> Iterator[_Scope]:
    inner = dict(scope)
    for items in pairs(value):
        inner.update(zip(names, items, strict=True))
        yield inner


def _quantified(scopes: Iterator[_Scope], predicate: _Eval, *, wanted: bool) -> bool:
    """Whether an item decides: one for which the predicate is `wanted` does even when it fails for others."""
    failure: CelError | None = None
    for scope in scopes:
        try:
            if _truth(predicate(scope)) is wanted:
                return True
        except CelError as error:
            failure = error
    if failure is not None:
        raise failure
    return False


def _has(node: syntax.Node, compile_node: _Compile) -> _Eval | None:
    if not isinstance(node, syntax.Select):
        return None
    operand = compile_node(node.operand)
    read = compile_node(syntax.Select(syntax.Ident("@has", node.at), node.field, node.at, optional=True))

    def test(scope: _Scope) -> bool:
        value = operand(scope)
        found = read({"@has": value})
        return isinstance(found, Optional) and found.present

    return test


def _collect(name: str, names: tuple[str, ...], pairs: _Pairs, target: _Eval, body: list[_Eval]) -> _Eval:
    result = body[-1]
    keeps = body[0] if len(body) == 2 else None

    def chosen(scope: _Scope) -> Iterator[_Scope]:
        for inner in _scopes(scope, names, pairs, target(scope)):
            if keeps is None or _truth(keeps(inner)):
                yield inner

    def to_map(scope: _Scope) -> dict[Json, Json]:
        return {inner[names[0]]: result(inner) for inner in chosen(scope)}

    def to_merged_map(scope: _Scope) -> dict[Json, Json]:
        merged: dict[Json, Json] = {}
        for inner in chosen(scope):
            merged.update(result(inner))
        return merged

    match name:
        case "transformMap":
            return to_map
        case "transformMapEntry":
            return to_merged_map
        case _:
            return lambda scope: [result(inner) for inner in chosen(scope)]


def _optional(name: str, variable: str, target: _Eval, body: _Eval) -> _Eval:
    def evaluate(scope: _Scope) -> Json:
        value = target(scope)
        if not isinstance(value, Optional):
            raise overload()
        if not value.present:
            return NONE
        found = body({**scope, variable: value.value})
        return found if name == "optFlatMap" else Optional(found, present=True)

    return evaluate


def _predicate(name: str, names: tuple[str, ...], pairs: _Pairs, target: _Eval, test: _Eval) -> _Eval:
    match name:
        case "all":
            return lambda scope: not _quantified(_scopes(scope, names, pairs, target(scope)), test, wanted=False)
        case "exists":
            return lambda scope: _quantified(_scopes(scope, names, pairs, target(scope)), test, wanted=True)
        case _:
            return lambda scope: sum(_truth(test(inner)) for inner in _scopes(scope, names, pairs, target(scope))) == 1


def _kept(names: tuple[str, ...], target: _Eval, test: _Eval) -> _Eval:
    return lambda scope: [inner[names[0]] for inner in _scopes(scope, names, _singles, target(scope)) if _truth(test(inner))]


def compile_macro(node: syntax.Call, compile_node: _Compile) -> _Eval | None:
    """The closure of a macro; None when the call is none."""
    if node.target is None:
        return _has(node.args[0], compile_node) if node.function == "has" and len(node.args) == 1 else None
    names = bound_names(node)
    if not names:
        return None
    body = [compile_node(each) for each in node.args[len(names) :]]
    target = compile_node(node.target)
    pairs = _doubles if len(names) == 2 else _singles
    match node.function:
        case "optMap" | "optFlatMap":
            return _optional(node.function, names[0], target, body[0])
        case "filter":
            return _kept(names, target, body[0])
        case name if name in _PREDICATES:
            return _predicate(name, names, pairs, target, body[0])
        case "sortBy":
            return _sorted(names, target, body[0])
        case name:
            return _collect(name, names, pairs, target, body)


def _sorted(names: tuple[str, ...], target: _Eval, key: _Eval) -> _Eval:
    def evaluate(scope: _Scope) -> list[Json]:
        decorated = [(key(inner), inner[names[0]]) for inner in _scopes(scope, names, _singles, target(scope))]
        try:
            decorated.sort(key=lambda each: each[0])
        except TypeError:
            raise overload() from None
        return [item for _, item in decorated]

    return evaluate
