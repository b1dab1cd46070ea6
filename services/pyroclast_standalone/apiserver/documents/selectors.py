"""Parses label and field selectors, and matches objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pyroclast.resources.go_text import go_quote
from pyroclast.rules import names
from pyroclast.rules.errors import FieldError, invalid
from pyroclast_standalone.apiserver.documents.errors import MalformedSelector, aggregate

FieldReaders: TypeAlias = Mapping[str, Callable[[Mapping[str, Any]], str]]
"""The selectable fields of a kind besides metadata.name and metadata.namespace, with a function that reads each as text."""

_Test: TypeAlias = Callable[[Mapping[str, str]], bool]

_REQUIREMENT: Final = re.compile(
    r"""\s*(?: !\s*(?P<absent>[^\s=<>!(),]+) | (?P<key>[^\s=<>!(),]+) \s*
      (?: (?P<sign>==|!=|[=<>]) \s* (?P<value>[^\s=<>!(),]*) | (?P<word>in|notin) \s* \((?P<values>[^=<>!()]*)\) )? )
    \s*(?: $ | ,(?=\s*\S))""",
    re.VERBOSE,
)


def _labels_of(document: Mapping[str, Any]) -> Mapping[str, str]:
    return (document.get("metadata") or {}).get("labels") or {}


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A conjunction of requirements on labels. Without requirements it matches every object."""

    tests: tuple[_Test, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tests)

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Return whether the selector matches these labels."""
        own = labels or {}
        return all(test(own) for test in self.tests)

    def selects(self, document: Mapping[str, Any]) -> bool:
        """Return whether the selector matches the labels of `document`."""
        return not self.tests or self.matches(_labels_of(document))


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """A conjunction of equalities on fields. `terms` are tuples (field, wanted, equal)."""

    terms: tuple[tuple[str, str, bool], ...] = ()
    _readers: tuple[Callable[[Mapping[str, Any]], str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.terms)

    def selects(self, document: Mapping[str, Any]) -> bool:
        """Return whether the selector matches `document`. A missing value compares as the empty text."""
        for (_, wanted, equal), read in zip(self.terms, self._readers, strict=True):
            if (read(document) == wanted) is not equal:
                return False
        return True

    def exact(self, field: str) -> str | None:
        """Return the only value that `field` may have, None if there are several. With it a list can use an index."""
        return next((wanted for name, wanted, equal in self.terms if equal and name == field), None)


def _test(key: str, operator: str, values: Sequence[str]) -> _Test:
    wanted = frozenset(values)
    match operator:
        case "exists":
            return lambda labels: key in labels
        case "!":
            return lambda labels: key not in labels
        case "=" | "in":
            if len(wanted) == 1:
                (only,) = wanted
                return lambda labels: labels.get(key) == only
            return lambda labels: labels.get(key) in wanted
        case "!=" | "notin":
            return lambda labels: labels.get(key) not in wanted
        case _:
            bound = int(values[0])
            above = operator == ">"

            def compares(labels: Mapping[str, str]) -> bool:
                try:
                    number = int(labels[key])
                except (KeyError, ValueError):
                    return False
                return number > bound if above else number < bound

            return compares


def _requirement(key: str, operator: str, values: Iterable[str]) -> _Test:
    """Return a requirement. Raise `MalformedSelector` with every value that no label can have."""
    listed = sorted(set(values))
    errors: list[FieldError] = []
    if operator in {">", "<"}:
        errors += [
            invalid(f"values[{index}]", value, "for 'Gt', 'Lt' operators, the value must be an integer")
            for index, value in enumerate(listed)
            if not re.fullmatch(r"[-+]?\d+", value)
        ]
    for index, value in enumerate(listed):
        if wrong := names.label_value(value):
            errors.append(invalid(f"values[{index}][{key}]", value, "; ".join(wrong)))
    if errors:
        raise MalformedSelector(f"unable to parse requirement: {aggregate(errors)}")
    return _test(key, operator, listed)


def parse_label_selector(text: str) -> LabelSelector:
    """Parse `a=b, c in (d,e), !f`."""
    tests: list[_Test] = []
    at = 0
    while at < len(text):
        found = _REQUIREMENT.match(text, at)
        if found is None:
            raise MalformedSelector(
                f"unable to parse requirement: {go_quote(text[at:])} is not like a=b, a!=b, a in (b,c), a or !a"
            )
        at, key = found.end(), found["absent"] or found["key"]
        if wrong := names.qualified_name(key):
            raise MalformedSelector(f"unable to parse requirement: {invalid('<nil>', key, '; '.join(wrong))}")
        if operator := found["sign"] or found["word"]:
            values = [found["value"]] if found["sign"] else [value.strip() for value in found["values"].split(",")]
            tests.append(_requirement(key, "=" if operator == "==" else operator, values))
        else:
            tests.append(_test(key, "!" if found["absent"] else "exists", ()))
    return LabelSelector(tuple(tests))


_EXPRESSIONS: Final = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


def from_label_selector(selector: Mapping[str, Any] | None) -> LabelSelector:
    """Return the selector of a `LabelSelector` object (`matchLabels`, `matchExpressions`). Empty, it matches everything."""
    if not selector:
        return LabelSelector()
    tests = [_test(key, "=", (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        operator = _EXPRESSIONS.get(expression.get("operator", ""))
        if operator is None:
            raise MalformedSelector(f"{go_quote(str(expression.get('operator', '')))} is not a valid label selector operator")
        tests.append(_test(expression.get("key", ""), operator, expression.get("values") or ()))
    return LabelSelector(tuple(tests))


def shown(value: str | float | bool) -> str:
    """Return a value as selectors compare it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_field(path: str) -> Callable[[Mapping[str, Any]], str]:
    """Return a reader of the dotted `path`: the value as text, empty when it is missing. Booleans are `true` and `false`."""
    steps = path.split(".")

    def read(document: Mapping[str, Any]) -> str:
        value: Any = document
        for step in steps:
            value = value.get(step) if isinstance(value, dict) else None
            if value is None:
                return ""
        return shown(value)

    return read


_NAME: Final = read_field("metadata.name")
_NAMESPACE: Final = read_field("metadata.namespace")


def _unescape(text: str) -> str:
    for found in re.finditer(r"\\[\\,=]|(?P<wrong>\\.?|[,=])", text, re.DOTALL):
        if wrong := found["wrong"]:
            why = f"invalid escape sequence: {wrong}" if wrong[0] == "\\" else f"unescaped character in value: {ord(wrong)}"
            raise MalformedSelector(f"invalid field selector: {why}")
    return re.sub(r"\\(.)", r"\1", text)


def _field_term(text: str, part: str) -> tuple[str, str, bool]:
    found = re.search(r"!=|==|=", part)
    if found is None:
        raise MalformedSelector(f"invalid selector: '{text}'; can't understand '{part}'")
    return part[: found.start()], _unescape(part[found.end() :]), found.group() != "!="


def parse_field_selector(text: str, fields: FieldReaders | None = None, *, namespaced: bool = True) -> FieldSelector:
    """Parse `spec.nodeName=n1,status.phase!=Failed`.

    `fields`: the selectable fields besides name and namespace. None for a kind without its own list, which has another error
    message. `namespaced`: whether the kind's own list includes `metadata.namespace`.
    """
    readers: dict[str, Callable[[Mapping[str, Any]], str]] = {"metadata.name": _NAME}
    if namespaced or fields is None:
        readers["metadata.namespace"] = _NAMESPACE
    readers.update(fields or {})
    terms = [_field_term(text, part) for part in sorted(re.findall(r"(?:\\.|[^,\\])+\\?|\\", text))]
    for field, _, _ in terms:
        if field not in readers:
            if fields is None:
                raise MalformedSelector(
                    f'{go_quote(field)} is not a known field selector: only "metadata.name", "metadata.namespace"'
                )
            raise MalformedSelector(f"field label not supported: {field}")
    return FieldSelector(tuple(terms), tuple(readers[field] for field, _, _ in terms))
