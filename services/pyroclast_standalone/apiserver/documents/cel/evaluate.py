"""Expressions compiled into closures over the values of their variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from pyroclast_standalone.apiserver.documents.values import Json

from . import syntax
from .authorizer import Authorizer
from .errors import CelError
from .functions_format import show
from .library import FUNCTIONS, METHODS, QUALIFIED, convert
from .macros import compile_macro
from .operators import OPERATORS
from .types import Type
from .values import NONE, Message, Optional, TypeOf, equal, overload, type_name

__all__ = ["Eval", "Scope", "compile_node"]

Scope: TypeAlias = dict[str, Json]
Eval: TypeAlias = Callable[[Scope], Json]

_TYPES: Final = {
    name: TypeOf(name) for name in ("bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type")
}
_ESCAPES: Final = (("__dot__", "."), ("__dash__", "-"), ("__slash__", "/"), ("__underscores__", "__"))


def unescaped(field: str) -> str:
    """The field that an expression means by `foo__dash__bar`."""
    if not field.startswith("__") and "__" not in field:
        return field
    name = field
    for written, text in _ESCAPES:
        name = name.replace(written, text)
    if name == field and name.startswith("__") and name.endswith("__"):
        return name[2:-2]
    return name


def _field(value: Json, field: str, plain: str) -> Json:
    if isinstance(value, dict):
        if plain in value:
            return value[plain]
        if field in value:
            return value[field]
        raise CelError(f"no such key: {plain}")
    if isinstance(value, Optional):
        return _optional_field(value, field, plain)
    if isinstance(value, Authorizer) and field == "requestResource" and value.of_request is not None:
        return value.of_request
    if isinstance(value, list):
        raise CelError("unsupported index type 'string' in list")
    raise CelError(f"no such key: {plain}")


def _optional_field(value: Json, field: str, plain: str) -> Optional:
    if isinstance(value, Optional):
        if not value.present:
            return NONE
        value = value.value
    if isinstance(value, dict):
        for name in (plain, field):
            if name in value:
                return Optional(value[name], present=True)
    return NONE


def _item(value: Json, index: Json) -> Json:
    if isinstance(value, dict):
        for key, child in value.items():
            if equal(key, index):
                return child
        raise CelError(f"no such key: {show(index)}")
    if isinstance(value, list):
        if isinstance(index, float) and index.is_integer():
            index = int(index)
        if not isinstance(index, int) or isinstance(index, bool):
            raise CelError(f"unsupported index type '{type_name(index)}' in list")
        if not 0 <= index < len(value):
            raise CelError(f"index out of bounds: {index}")
        return value[index]
    if isinstance(value, Optional):
        return _optional_item(value, index)
    raise CelError(f"no such key: {show(index)}")


def _optional_item(value: Json, index: Json) -> Optional:
    if isinstance(value, Optional):
        if not value.present:
            return NONE
        value = value.value
    try:
        return Optional(_item(value, index), present=True)
    except CelError:
        return NONE


class _Compiler:
    def __init__(self, types: Mapping[int, Type]) -> None:
        self._types = types

    def compile(self, node: syntax.Node) -> Eval:
        match node:
            case syntax.Literal(value=value):
                return lambda _scope: value
            case syntax.Ident(name=name):
                return self._ident(name)
            case syntax.Select():
                return self._select(node)
            case syntax.Index():
                return self._index(node)
            case syntax.ListOf(items=items):
                return self._list([(self.compile(item), optional) for item, optional in items])
            case syntax.MapOf(entries=entries):
                return self._map([(self.compile(key), self.compile(value), optional) for key, value, optional in entries])
            case syntax.Struct(name=name, fields=fields):
                return self._struct(name, [(field, self.compile(value), optional) for field, value, optional in fields])
            case syntax.Call():
                return self._call(node)

    def _ident(self, name: str) -> Eval:
        constant = _TYPES.get(name)

        def read(scope: Scope) -> Json:
            if name in scope:
                value = scope[name]
                return value() if value.__class__ is _Lazy else value
            if constant is not None:
                return constant
            raise CelError(f"undeclared reference to '{name}'")

        return read

    def _select(self, node: syntax.Select) -> Eval:
        operand, field, plain = self.compile(node.operand), node.field, unescaped(node.field)
        if node.optional:
            return lambda scope: _optional_field(operand(scope), field, plain)
        adapt = convert(self._types.get(id(node)))

        def read(scope: Scope) -> Json:
            value = operand(scope)
            if value.__class__ is dict and plain in value:
                return value[plain]
            return _field(value, field, plain)

        return read if adapt is None else lambda scope: adapt(read(scope))

    def _index(self, node: syntax.Index) -> Eval:
        operand, index = self.compile(node.operand), self.compile(node.index)
        if node.optional:
            return lambda scope: _optional_item(operand(scope), index(scope))
        return lambda scope: _item(operand(scope), index(scope))

    def _list(self, items: list[tuple[Eval, bool]]) -> Eval:
        def build(scope: Scope) -> list[Json]:
            result = []
            for item, optional in items:
                value = item(scope)
                if not optional:
                    result.append(value)
                elif isinstance(value, Optional) and value.present:
                    result.append(value.value)
            return result

        return build

    def _map(self, entries: list[tuple[Eval, Eval, bool]]) -> Eval:
        def build(scope: Scope) -> dict[Json, Json]:
            result: dict[Json, Json] = {}
            for key, item, optional in entries:
                value = item(scope)
                if not optional:
                    result[key(scope)] = value
                elif isinstance(value, Optional) and value.present:
                    result[key(scope)] = value.value
            return result

        return build

    def _struct(self, name: str, fields: list[tuple[str, Eval, bool]]) -> Eval:
        def build(scope: Scope) -> Message:
            result: dict[str, Json] = {}
            for field, item, optional in fields:
                value = item(scope)
                if not optional:
                    result[unescaped(field)] = value
                elif isinstance(value, Optional) and value.present:
                    result[unescaped(field)] = value.value
            return Message(name, result)

        return build

    def _call(self, node: syntax.Call) -> Eval:
        special = _SPECIAL.get(node.function)
        if special is not None and node.target is None:
            return special(*(self.compile(each) for each in node.args))
        macro = compile_macro(node, self.compile)
        if macro is not None:
            return macro
        args = [self.compile(each) for each in node.args]
        if node.target is None:
            return self._function(node.function, args)
        if isinstance(node.target, syntax.Ident):
            qualified = QUALIFIED.get(f"{node.target.name}.{node.function}")
            if qualified is not None:
                return lambda scope: qualified(*(arg(scope) for arg in args))
        target = self.compile(node.target)
        method = METHODS.get(node.function)
        if method is None:
            raise CelError(f"undeclared reference to '{node.function}'")
        return lambda scope: method(target(scope), *(arg(scope) for arg in args))

    def _function(self, name: str, args: list[Eval]) -> Eval:
        function = OPERATORS.get(name) or FUNCTIONS.get(name)
        if function is None:
            raise CelError(f"undeclared reference to '{name}'")
        if len(args) == 2:
            left, right = args
            return lambda scope: function(left(scope), right(scope))
        return lambda scope: function(*(arg(scope) for arg in args))


class _Lazy:
    """A variable that is worked out when it is first read."""

    __slots__ = ("_done", "_value", "_work")

    def __init__(self, work: Callable[[], Json]) -> None:
        self._work = work
        self._done = False
        self._value: Json = None

    def __call__(self) -> Json:
        if not self._done:
            self._value, self._done = self._work(), True
        return self._value


def lazily(work: Callable[[], Json]) -> Json:
    """A variable whose value is worked out when an expression first reads it, and kept."""
    return _Lazy(work)


def _truth(value: Json) -> bool:
    if value.__class__ is not bool:
        raise overload()
    return bool(value)


def _and(left: Eval, right: Eval) -> Eval:
    """Conjunction: a false side decides even when the other side fails."""

    def evaluate(scope: Scope) -> bool:
        try:
            if not _truth(left(scope)):
                return False
        except CelError:
            if not _truth(right(scope)):
                return False
            raise
        return _truth(right(scope))

    return evaluate


def _or(left: Eval, right: Eval) -> Eval:
    """Disjunction: a true side decides even when the other side fails."""

    def evaluate(scope: Scope) -> bool:
        try:
            if _truth(left(scope)):
                return True
        except CelError:
            if _truth(right(scope)):
                return True
            raise
        return _truth(right(scope))

    return evaluate


def _choose(condition: Eval, then: Eval, otherwise: Eval) -> Eval:
    return lambda scope: then(scope) if _truth(condition(scope)) else otherwise(scope)


_SPECIAL: Final[Mapping[str, Callable[..., Eval]]] = {"_&&_": _and, "_||_": _or, "_?_:_": _choose}


def compile_node(node: syntax.Node, types: Mapping[int, Type] | None = None) -> Eval:
    """The closure of `node`. `types` are static types by the id of the node: values of JSON are turned into them.

    Raises:
        CelError: a function that does not exist.
    """
    return _Compiler(types or {}).compile(node)
