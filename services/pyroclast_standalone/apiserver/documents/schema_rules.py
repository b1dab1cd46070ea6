"""CEL rules in schemas (`x-kubernetes-validations`): collects, compiles and evaluates them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from pyroclast.expressions import EvaluationError, ExpressionError, Program, compile_expression
from pyroclast.expressions.values import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    LIST,
    MAP,
    OPTIONAL,
    STRING,
    TIMESTAMP,
    Duration,
    Timestamp,
    Type,
    object_of,
)
from pyroclast.rules.errors import MISSING, FieldError, duplicate, forbidden, invalid, required, unsupported
from pyroclast_standalone.apiserver.documents.conditions import Broken, compile_stored
from pyroclast_standalone.apiserver.documents.errors import Json
from pyroclast_standalone.apiserver.documents.field_sets import BadFieldPath, find_field
from pyroclast_standalone.apiserver.documents.schema_validation import NO_OLD, correlated_items

_Reader: TypeAlias = Callable[[Json], Json]
_FORMATS: Final = {"date-time": TIMESTAMP, "date": TIMESTAMP, "datetime": TIMESTAMP, "duration": DURATION, "byte": BYTES}
_SCALARS: Final = {"boolean": BOOL, "integer": INT, "number": DOUBLE, "string": STRING}
_WORDS: Final = frozenset(
    "true false null in as break const continue else for function if import let loop package namespace return var void "  # noqa: SIM905
    "while".split()
)
_ESCAPES: Final = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))


def _escaped(name: str) -> str:
    """Return the name of a field in expressions: `foo__dash__bar`."""
    if name in _WORDS:
        return f"__{name}__"
    for text, written in _ESCAPES:
        name = name.replace(text, written)
    return name


def type_of(schema: Mapping[str, Json], *, is_root: bool = False) -> Type:
    """Return the type of a value of an OpenAPI schema. A root and an embedded resource have apiVersion, kind and metadata."""
    if schema.get("x-kubernetes-int-or-string"):
        return DYN
    match schema.get("type"):
        case "array":
            items = schema.get("items")
            return LIST[type_of(items) if isinstance(items, Mapping) else DYN]
        case "object":
            return _type_of_object(schema, is_root=is_root)
        case "string":
            return _FORMATS.get(schema.get("format", ""), STRING)
        case kind:
            return _SCALARS.get(str(kind), DYN)


def _type_of_object(schema: Mapping[str, Json], *, is_root: bool) -> Type:
    extra = schema.get("additionalProperties")
    properties = schema.get("properties") or {}
    if isinstance(extra, Mapping):
        return MAP[type_of(extra)]
    if schema.get("x-kubernetes-preserve-unknown-fields") and not properties and not is_root:
        return DYN
    fields = {_escaped(name): type_of(inner) for name, inner in properties.items()}
    if is_root or schema.get("x-kubernetes-embedded-resource"):
        fields.update(apiVersion=STRING, kind=STRING, metadata=object_of(name=STRING, generateName=STRING))
    return object_of(**fields)


def _text(parse: Callable[[str], Json]) -> _Reader:
    def read(value: Json) -> Json:
        try:
            return parse(value) if isinstance(value, str) else value
        except (EvaluationError, ValueError):
            return value

    return read


_READERS: Final[Mapping[str, _Reader]] = {
    TIMESTAMP.kind: _text(lambda text: Timestamp(f"{text}T00:00:00Z" if len(text) == len("2006-01-02") else text)),
    DURATION.kind: _text(Duration),
    BYTES.kind: _text(lambda text: base64.b64decode(text, validate=True)),
    DOUBLE.kind: lambda value: float(value) if value.__class__ is int else value,
}


def reader_of(schema: Mapping[str, Json]) -> _Reader | None:
    """Return a function that converts the JSON values it can convert to the schema's types; None if no value needs that."""
    if not (items := schema.get("items") or schema.get("additionalProperties")) or not isinstance(items, Mapping):
        fields = {name: reader for name, inner in (schema.get("properties") or {}).items() if (reader := reader_of(inner))}
        return _of_object(fields) if fields else _READERS.get(type_of(schema).kind)
    item = reader_of(items)
    return None if item is None else _of_items(item)


def _of_object(fields: Mapping[str, _Reader]) -> _Reader:
    def read(value: Json) -> Json:
        if not isinstance(value, dict):
            return value
        return {name: fields[name](each) if name in fields else each for name, each in value.items()}

    return read


def _of_items(item: _Reader) -> _Reader:
    def read(value: Json) -> Json:
        if isinstance(value, dict):
            return {name: item(each) for name, each in value.items()}
        return [item(each) for each in value] if isinstance(value, list) else value

    return read


_RULES: Final = "x-kubernetes-validations"
_REASONS: Final[Mapping[str, Callable[[str, Json, str], FieldError]]] = {
    "FieldValueRequired": lambda path, _value, text: required(path, text),
    "FieldValueForbidden": lambda path, _value, text: forbidden(path, text),
    "FieldValueInvalid": invalid,
    "FieldValueDuplicate": lambda path, value, _text: duplicate(path, value),
}
_MAX_MESSAGE: Final = 5 * 1024  # characters of a message that a rule computes


@dataclass(frozen=True, slots=True)
class _Rule:
    """One compiled CEL rule of a schema."""

    program: Program | Broken
    source: Mapping[str, Json]
    message: Program | Broken | None

    @property
    def is_transition(self) -> bool:
        """Whether the rule uses the old value."""
        return "oldSelf" in self.program.names

    def failed(self) -> str:
        """The message of a rule without a message expression."""
        text = self.source.get("message")
        return str(text).strip() if text else f"failed rule: {' '.join(str(self.source['rule']).split())}"


def _variables(own: Type, rule: Mapping[str, Json]) -> dict[str, Type]:
    return {"self": own, "oldSelf": OPTIONAL[own] if rule.get("optionalOldSelf") else own}


def _compile(rule: Mapping[str, Json], own: Type) -> _Rule:
    variables = _variables(own, rule)
    message = compile_stored(rule["messageExpression"], variables) if rule.get("messageExpression") else None
    return _Rule(compile_stored(rule["rule"], variables), rule, message)


def _failure(rule: _Rule, error: EvaluationError) -> str:
    text = " ".join(str(rule.source["rule"]).split())
    if str(error).startswith("no such overload"):
        return f"'{error}': call arguments did not match a supported operator, function or macro signature for rule: {text}"
    return f"{error} evaluating rule: {rule.source.get('message') or text}"


def _field_path(path: str, field: str) -> str:
    return f"{path}{field}" if path else field.lstrip(".")


class Rules:
    """The rules of one schema and of the schemas below it. In a condition, the object is false if there are none.

    `is_root`: whether the schema is that of a resource.
    """

    def __init__(self, schema: Mapping[str, Json], *, is_root: bool = False) -> None:
        self._rules: list[_Rule] = []
        if rules := schema.get(_RULES):  # computing the types is slow, and most schemas have no rules
            own = type_of(schema, is_root=is_root)
            self._read = reader_of(schema) or (lambda value: value)
            self._rules = [_compile(rule, own) for rule in rules]
        self._omits_value = schema.get("type") in {"object", "array"}
        self._fields = {name: rules for name, inner in (schema.get("properties") or {}).items() if (rules := Rules(inner))}
        self._others, self._item = (_needed(schema.get(name)) for name in ("additionalProperties", "items"))
        self._find = correlated_items(schema)
        self._is_needed = bool(self._rules or self._fields or self._others or self._item)

    def __bool__(self) -> bool:
        return self._is_needed

    def check(self, value: Json, old: Json, errors: list[FieldError], warnings: list[str], *, path: str = "") -> None:
        """Add the violations of `value` to `errors`. A violation that an update did not introduce is only added to `warnings`.

        `old`: the value that it replaces. None or `NO_OLD` without one.
        """
        if value is None:
            return
        for rule in self._rules:
            found, is_old = self._applied(rule, value, old, path)
            if found is not None and is_old:
                warnings.append(str(found))
            elif found is not None:
                errors.append(found)
        if isinstance(value, dict):
            before = old if isinstance(old, dict) else {}
            prefix = f"{path}." if path else ""
            for name, child in value.items():
                if name in self._fields:
                    self._fields[name].check(child, before.get(name, NO_OLD), errors, warnings, path=prefix + name)
                elif self._others is not None:
                    self._others.check(child, before.get(name, NO_OLD), errors, warnings, path=f"{path}[{name}]")
        elif isinstance(value, list) and self._item is not None:
            for index, each in enumerate(value):
                before = NO_OLD if old is NO_OLD else self._find(each, old)
                self._item.check(each, before, errors, warnings, path=f"{path}[{index}]")

    def _applied(self, rule: _Rule, value: Json, old: Json, path: str) -> tuple[FieldError | None, bool]:
        """Return the violation of a rule, and whether the old value violated the rule in the same way."""
        variables: dict[str, Json] = {"self": self._read(value)}
        has_old = old is not NO_OLD and old is not None
        if rule.source.get("optionalOldSelf"):
            variables["oldSelf"] = (self._read(old),) if has_old else ()
        elif rule.is_transition:
            if not has_old:
                return None, False
            variables["oldSelf"] = self._read(old)
        try:
            if rule.program.evaluate(variables) is True:
                return None, False
        except EvaluationError as error:
            return invalid(path or "<nil>", self._kind(value), _failure(rule, error)), False
        own = _field_path(path, rule.source["fieldPath"]) if rule.source.get("fieldPath") else path
        make = _REASONS.get(rule.source.get("reason", ""), invalid)
        shown = MISSING if self._omits_value else value
        found = make(own or "<nil>", shown, self._message(rule, variables))
        return found, not rule.is_transition and has_old and old == value

    def _kind(self, value: Json) -> str:
        return "object" if isinstance(value, dict) else "array" if isinstance(value, list) else type(value).__name__

    def _message(self, rule: _Rule, variables: Mapping[str, Json]) -> str:
        if rule.message is None:
            return rule.failed()
        try:
            text = rule.message.evaluate(variables)
        except EvaluationError:
            return rule.failed()
        if not isinstance(text, str) or not text.strip() or "\n" in text or len(text) > _MAX_MESSAGE:
            return rule.failed()
        return text.strip()


def _needed(schema: Json) -> Rules | None:
    return (Rules(schema) or None) if isinstance(schema, Mapping) else None


def _places(schema: Mapping[str, Json], path: str, *, is_root: bool) -> Iterator[tuple[Mapping[str, Json], str, bool]]:
    yield schema, path, is_root
    for name, inner in (schema.get("properties") or {}).items():
        yield from _places(inner, f"{path}.properties[{name}]", is_root=False)
    for field in ("additionalProperties", "items"):
        if isinstance(schema.get(field), Mapping):
            yield from _places(schema[field], f"{path}.{field}", is_root=False)


def _check_rule(rule: Mapping[str, Json], schema: Mapping[str, Json], path: str) -> list[FieldError]:
    text, message = str(rule.get("rule", "")), rule.get("message")
    errors: list[FieldError] = []
    if not text.strip():
        errors.append(required(f"{path}.rule", "rule is not specified"))
    elif message and "\n" in message.strip():
        errors.append(invalid(f"{path}.message", message, "must not contain line breaks"))
    elif "\n" in text.strip() and not message:
        errors.append(required(f"{path}.message", "message must be specified if rule contains line breaks"))
    if (reason := rule.get("reason")) is not None and reason not in _REASONS:
        errors.append(unsupported(f"{path}.reason", reason, sorted(_REASONS)))
    if place := str(rule.get("fieldPath") or ""):
        try:
            find_field(place, schema)
        except BadFieldPath:
            errors.append(invalid(f"{path}.fieldPath", place, "must be a valid path"))
    return errors


_SHOWN: Final = (
    ("Rule", "rule", ""),
    ("Message", "message", ""),
    ("MessageExpression", "messageExpression", ""),
    ("Reason", "reason", None),
    ("FieldPath", "fieldPath", ""),
    ("OptionalOldSelf", "optionalOldSelf", None),
)


def _shown(rule: Mapping[str, Json]) -> dict[str, Json]:
    """Return a rule as the API shows it in a message."""
    return {name: rule.get(field, empty) for name, field, empty in _SHOWN}


def _check_expressions(rule: Mapping[str, Json], own: Type, path: str) -> list[FieldError]:
    variables = _variables(own, rule)
    errors: list[FieldError] = []
    for field, wanted, prefix in (("rule", BOOL, ""), ("messageExpression", STRING, "messageExpression ")):
        text = rule.get(field)
        if not text:
            continue
        try:
            program = compile_expression(text, variables)
        except ExpressionError as error:
            errors.append(invalid(f"{path}.{field}", _shown(rule), f"{prefix}compilation failed: {error}"))
            continue
        if program.type.kind not in {wanted.kind, DYN.kind}:
            subject = "messageExpression" if prefix else "cel expression"
            errors.append(invalid(f"{path}.{field}", _shown(rule), f"{subject} must evaluate to a {wanted}"))
    return errors


def check_rules(schema: Mapping[str, Json], path: str, *, is_sound: bool) -> list[FieldError]:
    """Return the faults of the rules of `schema` themselves. Only the rules of a valid schema are compiled."""
    found = [
        (rule, place, is_root, f"{own}.{_RULES}[{index}]")
        for place, own, is_root in _places(schema, path, is_root=True)
        for index, rule in enumerate(place.get(_RULES) or ())
    ]
    errors = [error for rule, place, _, own in found for error in _check_rule(rule, place, own)]
    if errors or not is_sound:
        return errors
    return [
        error for rule, place, is_root, own in found for error in _check_expressions(rule, type_of(place, is_root=is_root), own)
    ]
