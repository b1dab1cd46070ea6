"""What can be said of an expression before it is evaluated: unknown names and fields, operators that cannot work, its type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyroclast_standalone.apiserver.documents.patterns import BadPattern, compile_pattern

from . import syntax
from .errors import CelError, located
from .functions_times import duration, timestamp
from .library import FUNCTIONS, METHODS, QUALIFIED
from .macros import bound_names
from .operators import OPERATORS
from .types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
)
from .values import Uint

__all__ = ["check"]

_TYPE_NAMES: Final = {"bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"}
_LITERALS: Final[Mapping[str, Callable[[str], object]]] = {"duration": duration, "timestamp": timestamp}
_COMPARISONS: Final = {"_<_", "_<=_", "_>_", "_>=_"}
_NUMBERS: Final = {"int", "uint", "double"}
_PLAIN: Final = {*_NUMBERS, "bool", "string", "bytes", "list", "map"}
_COMPARED: Final = {*_NUMBERS, "bool", "string", "bytes", "timestamp", "duration"}
_ARITHMETIC: Final[Mapping[str, set[str]]] = {
    "_+_": {*_NUMBERS, "string", "bytes", "list", "duration", "timestamp"},
    "_-_": {*_NUMBERS, "duration", "timestamp"},
    "_%_": {"int", "uint"},
}
"""What operators take; where nothing is said, numbers."""
_FIRST: Final[Mapping[str, frozenset[str]]] = {
    name: frozenset(kinds.split())
    for kinds, functions in (
        ("string bytes list map", "size"),
        ("int uint double string timestamp duration", "int uint"),
        ("int uint double string", "double"),
        ("bool string", "bool"),
        ("bytes string", "bytes"),
        ("duration string int", "duration"),
        ("timestamp string int", "timestamp"),
        ("string", "contains startsWith endsWith matches lowerAscii upperAscii trim split replace substring charAt find findAll"),
        ("string", "format isQuantity isIP isCIDR isURL isSemver quantity url semver"),
        ("string list", "indexOf lastIndexOf"),
        ("list", "isSorted sum min max join distinct flatten slice sort reverse first last"),
        ("optional", "orValue or hasValue value"),
        ("timestamp", "getFullYear getMonth getDate getDayOfMonth getDayOfWeek getDayOfYear"),
        ("timestamp duration", "getHours getMinutes getSeconds getMilliseconds"),
    )
    for name in functions.split()
}
"""What functions take first: the value they are called on, or their only argument."""
_RESULTS: Final[Mapping[str, Type]] = {
    **dict.fromkeys(
        ("contains", "startsWith", "endsWith", "matches", "isSorted", "isInteger", "isGreaterThan", "isLessThan", "hasValue",
         "containsIP", "containsCIDR", "allowed", "isLoopback", "isUnspecified", "bool", "isQuantity", "isURL",
         "isIP", "isCIDR", "isSemver"),
        BOOL,
    ),
    **dict.fromkeys(
        ("size", "int", "indexOf", "lastIndexOf", "compareTo", "sign", "asInteger", "family", "prefixLength", "getFullYear",
         "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getHours", "getMinutes", "getSeconds"),
        INT,
    ),
    **dict.fromkeys(
        ("string", "find", "charAt", "substring", "lowerAscii", "upperAscii", "replace", "join", "trim", "format", "getScheme",
         "getHost", "getHostname", "getPort", "getEscapedPath"),
        STRING,
    ),
    "double": DOUBLE,
    "uint": UINT,
    "bytes": BYTES,
    "timestamp": TIMESTAMP,
    "duration": DURATION,
    "split": list_of(STRING),
    "findAll": list_of(STRING),
}  # fmt: skip


def _is_open(kind: Type) -> bool:
    return kind.kind in {"dyn", "optional"}


def _takes(function: str, first: Type) -> bool:
    return first.kind in {"dyn", "null"} or first.kind in _FIRST.get(function, {first.kind})


def _fits(left: Type, right: Type) -> bool:
    """Whether two values may be compared for equality."""
    if _is_open(left) or _is_open(right):
        return True
    if "null" in {left.kind, right.kind}:
        return {left.kind, right.kind} <= {"null", "object", "timestamp", "duration"} or not _PLAIN & {left.kind, right.kind}
    if left.kind in {"list", "map"} and left.kind == right.kind:
        return (left.item is None or right.item is None or _fits(left.item, right.item)) and True
    if {left.kind, right.kind} <= {"object", "map"}:
        return True
    return left.kind == right.kind


class _Checker:
    def __init__(self, source: str, types: dict[int, Type]) -> None:
        self.source = source
        self.types = types
        self.problems: list[str] = []

    def say(self, at: int, text: str) -> Type:
        self.problems.append(located(self.source, at, text))
        return DYN

    def of(self, node: syntax.Node, scope: Mapping[str, Type]) -> Type:
        found = self._of(node, scope)
        self.types[id(node)] = found
        return found

    def _of(self, node: syntax.Node, scope: Mapping[str, Type]) -> Type:
        match node:
            case syntax.Literal():
                return _of_literal(node)
            case syntax.Ident(name=name, at=at):
                if name in scope:
                    return scope[name]
                return (
                    Type("type") if name in _TYPE_NAMES else self.say(at, f"undeclared reference to '{name}' (in container '')")
                )
            case syntax.Select():
                return self._select(node, scope)
            case syntax.Index():
                return self._index(node, scope)
            case syntax.ListOf(items=items):
                kinds = [self.of(item, scope) for item, _ in items]
                return list_of(_joined(kinds))
            case syntax.MapOf(entries=entries):
                keys = [self.of(key, scope) for key, _, _ in entries]
                values = [self.of(value, scope) for _, value, _ in entries]
                return map_of(_joined(keys), _joined(values))
            case syntax.Struct(fields=fields):
                for _, value, _ in fields:
                    self.of(value, scope)
                return Type("object")
            case syntax.Call():
                return self._call(node, scope)

    def _select(self, node: syntax.Select, scope: Mapping[str, Type]) -> Type:
        qualified = f"{node.operand.name}.{node.field}" if isinstance(node.operand, syntax.Ident) else ""
        if qualified and node.operand.name not in scope and qualified in QUALIFIED:  # type: ignore[union-attr]  # an Ident, see above
            return DYN
        holder = self.of(node.operand, scope)
        inner = self._field(node, holder.item or DYN if holder.kind == "optional" else holder)
        return Type("optional", inner) if node.optional or holder.kind == "optional" else inner

    def _field(self, node: syntax.Select, holder: Type) -> Type:
        match holder.kind:
            case "object" if holder.fields is not None:
                found = holder.fields.get(node.field)
                return found if found is not None else self.say(node.at, f"undefined field '{node.field}'")
            case "map":
                return holder.item or DYN
            case "dyn" | "object" | "null":
                return DYN
            case _:
                return self.say(node.at, f"type '{holder}' does not support field selection")

    def _index(self, node: syntax.Index, scope: Mapping[str, Type]) -> Type:
        holder, index = self.of(node.operand, scope), self.of(node.index, scope)
        inner = holder.item if holder.kind in {"list", "map"} and holder.item is not None else DYN
        if holder.kind == "list" and index.kind not in {"int", "dyn", "uint", "double"}:
            self.say(node.at, f"found no matching overload for '_[_]' applied to '({holder}, {index})'")
        return Type("optional", inner) if node.optional else inner

    def _call(self, node: syntax.Call, scope: Mapping[str, Type]) -> Type:
        if node.target is None:
            return self._function(node, scope)
        names = bound_names(node)
        if names:
            return self._macro(node, names, scope)
        if isinstance(node.target, syntax.Ident) and node.target.name not in scope:
            qualified = f"{node.target.name}.{node.function}"
            if qualified in QUALIFIED:
                for arg in node.args:
                    self.of(arg, scope)
                return _RESULTS.get(qualified, DYN)
        target = self.of(node.target, scope)
        args = [self.of(arg, scope) for arg in node.args]
        if node.function == "matches" and len(node.args) == 1:
            self._literal("matches", node.args[0], compile_pattern)
        if node.function not in METHODS:
            return self.say(node.at, f"undeclared reference to '{node.function}' (in container '')")
        if not _takes(node.function, target):
            return self._no_overload(node, f"{target}.({', '.join(map(str, args))})")
        return _RESULTS.get(node.function, DYN)

    def _no_overload(self, node: syntax.Call, given: str) -> Type:
        return self.say(node.at, f"found no matching overload for '{node.function}' applied to '{given}'")

    def _macro(self, node: syntax.Call, names: tuple[str, ...], scope: Mapping[str, Type]) -> Type:
        holder = self.of(node.target, scope) if node.target is not None else DYN
        if holder.kind not in {"list", "map", "dyn", "optional"}:
            at = node.target.at if node.target is not None else node.at
            text = f"expression of type '{holder}' cannot be range of a comprehension (must be list, map, or dynamic)"
            return self.say(at, text)
        inner = {**scope, **_bound(names, holder)}
        kinds = [self.of(arg, inner) for arg in node.args[len(names) :]]
        match node.function:
            case "all" | "exists" | "exists_one" | "existsOne":
                return BOOL
            case "filter":
                return list_of(inner[names[0]])
            case "map" | "transformList":
                return list_of(kinds[-1])
            case _:
                return DYN

    def _function(self, node: syntax.Call, scope: Mapping[str, Type]) -> Type:
        if node.function == "has":
            if len(node.args) != 1 or not isinstance(node.args[0], syntax.Select):
                return self.say(node.at, "invalid argument to has() macro")
            self.of(node.args[0], scope)
            return BOOL
        args = [self.of(arg, scope) for arg in node.args]
        if node.function in _LITERALS and len(args) == 1:
            self._literal(node.function, node.args[0], _LITERALS[node.function])
        if node.function in OPERATORS or node.function in {"_&&_", "_||_", "_?_:_"}:
            return self._operator(node, args)
        if node.function not in FUNCTIONS:
            return self.say(node.at, f"undeclared reference to '{node.function}' (in container '')")
        if args and not _takes(node.function, args[0]):
            return self._no_overload(node, f"({', '.join(map(str, args))})")
        return _RESULTS.get(node.function, DYN)

    def _literal(self, function: str, arg: syntax.Node, parse: Callable[[str], object]) -> None:
        """Literals that the function cannot take are found out before it is called."""
        if isinstance(arg, syntax.Literal) and isinstance(arg.value, str):
            try:
                parse(arg.value)
            except (CelError, BadPattern):
                self.say(arg.at, f"invalid {function} argument")

    def _operator(self, node: syntax.Call, args: list[Type]) -> Type:
        name = node.function
        result = _of_operator(name, args)
        return self._no_overload(node, f"({', '.join(map(str, args))})") if result is None else result


def _bound(names: tuple[str, ...], holder: Type) -> dict[str, Type]:
    key, item = holder.key or DYN, holder.item or DYN
    if len(names) == 2:
        return {names[0]: key if holder.kind == "map" else INT if holder.kind == "list" else DYN, names[1]: item}
    return {names[0]: key if holder.kind == "map" else item}


def _joined(kinds: list[Type]) -> Type:
    if not kinds:
        return DYN
    return kinds[0] if all(kind.kind == kinds[0].kind for kind in kinds) else DYN


def _of_literal(node: syntax.Literal) -> Type:
    match node.value:
        case bool():
            return BOOL
        case Uint():
            return UINT
        case int():
            return INT
        case float():
            return DOUBLE
        case str():
            return STRING
        case bytes():
            return BYTES
        case _:
            return NULL


def _of_operator(name: str, args: list[Type]) -> Type | None:
    """The type of an operator's result, None when it cannot work."""
    kinds = [arg.kind for arg in args]
    match name:
        case "_&&_" | "_||_" | "!_":
            return BOOL if all(kind in {"bool", "dyn"} for kind in kinds) else None
        case "_?_:_":
            return _joined(args[1:]) if kinds[0] in {"bool", "dyn"} and _fits(*args[1:]) else None
        case "_==_" | "_!=_":
            return BOOL if _fits(*args) else None
        case "@in":
            holder = args[1]
            if holder.kind not in {"list", "map", "dyn"}:
                return None
            inner = holder.item if holder.kind == "list" else holder.key
            return BOOL if inner is None or _fits(args[0], inner) else None
        case "-_":
            return args[0] if kinds[0] in {"int", "double", "duration", "dyn"} else None
    if any(_is_open(arg) for arg in args):
        allowed = _COMPARED if name in _COMPARISONS else _ARITHMETIC.get(name, _NUMBERS)
        if any(kind not in allowed and kind not in {"dyn", "null"} for kind in kinds):
            return None
        return BOOL if name in _COMPARISONS else DYN
    if name in _COMPARISONS:
        comparable = kinds[0] == kinds[1] or set(kinds) <= _NUMBERS
        return BOOL if comparable and kinds[0] not in {"list", "map", "object", "null"} else None
    return _of_arithmetic(name, args, kinds)


def _of_arithmetic(name: str, args: list[Type], kinds: list[str]) -> Type | None:
    if name in {"_+_", "_-_"} and set(kinds) == {"timestamp", "duration"}:
        return TIMESTAMP if name == "_+_" or kinds[0] == "timestamp" else None
    if kinds[0] != kinds[1]:
        return None
    if kinds[0] not in _ARITHMETIC.get(name, _NUMBERS) or (name == "_+_" and kinds[0] == "timestamp"):
        return None
    return DURATION if name == "_-_" and kinds[0] == "timestamp" else args[0]


def check(source: str, node: syntax.Node, variables: Mapping[str, Type]) -> tuple[Type, dict[int, Type], list[str]]:
    """The type of an expression, the types of its parts by the id of their node, and what is wrong with it."""
    types: dict[int, Type] = {}
    checker = _Checker(source, types)
    kind = checker.of(node, variables)
    return kind, types, checker.problems
