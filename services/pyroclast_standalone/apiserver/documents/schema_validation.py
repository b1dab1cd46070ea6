"""Validation by an OpenAPI schema, compiled to closures, with the messages of the API."""

from __future__ import annotations

import base64
import ipaddress
import operator
import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from pyroclast.resources.go_text import go_quote, go_value
from pyroclast.resources.patterns import compile_pattern
from pyroclast.rules.errors import FieldError, invalid, required, too_long, too_many, type_invalid, unsupported
from pyroclast_standalone.apiserver.documents.errors import Json

_DATE_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt]([01]\d|2[0-3]):([0-5]\d):([0-5]\d|60)(?:[.,]\d+)?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_HOSTNAME: Final = re.compile(
    r"[a-zA-Z0-9](?:-?[a-zA-Z0-9]{0,62})?|(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)+[a-zA-Z]{2,63}"
)
_DURATION: Final = re.compile(r"(?:[-+]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+))|(?:\d+\s*[A-Za-zµ]+\s*)+")
_EMAIL: Final = re.compile(r"[^@\s<>]+@[^@\s<>]+")
_UUID: Final = re.compile(r"(?i:[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12})")


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    """Return a function that says whether a text can be parsed: whether `parse` raises no ValueError."""

    def is_one(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return is_one


def _is_date(text: str) -> bool:
    return re.fullmatch(r"\d{4}-\d\d-\d\d", text) is not None and _parses(date.fromisoformat)(text)


def _is_date_time(text: str) -> bool:
    found = _DATE_TIME.fullmatch(text)
    return found is not None and _is_date(found[1])


def _is_cidr(text: str) -> bool:
    return "/" in text and _parses(lambda each: ipaddress.ip_network(each, strict=False))(text)


def _is_uri(text: str) -> bool:
    return _parses(urlsplit)(text) and (bool(urlsplit(text).scheme) or text.startswith("/"))


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


FORMATS: Final[Mapping[str, Callable[[str], bool]]] = {
    "byte": _parses(lambda text: base64.b64decode(text, validate=True)),
    "cidr": _is_cidr,
    "date": _is_date,
    "date-time": _is_date_time,
    "datetime": _is_date_time,
    "duration": _matches(_DURATION),
    "email": _matches(_EMAIL),
    "hostname": _matches(_HOSTNAME),
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "uri": _is_uri,
    "uuid": _matches(_UUID),
}
"""The checks by format. Other formats are not checked."""


NO_OLD: Final = object()
"""Marks that no old value exists to compare with."""

Errors: TypeAlias = list[FieldError]
Validator: TypeAlias = Callable[[Json, str, Json, Errors], None]
"""A function of a value, its path, the value that it replaces (`NO_OLD` without one), and a list to which it adds errors."""

_TYPES: Final = {
    bool: "boolean",
    str: "string",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}
_INTEGER_LIMITS: Final = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


def _number(value: Json) -> str:
    return go_value(float(value)) if isinstance(value, float) else str(value)


def _type_checks(schema: Mapping[str, Json]) -> dict[type, Validator]:
    """Return a check for each type that is not the schema's. The check reports the wrong type."""
    if schema.get("x-kubernetes-int-or-string"):
        wanted, accepted = "integer,string", {int, str}
    else:
        declared = schema.get("type")
        if not declared:
            return {}
        wanted = str(declared)
        accepted = {cls for cls, name in _TYPES.items() if name == declared}
        if declared == "number":
            accepted = {int, float}
    if schema.get("nullable"):
        accepted.add(type(None))
    takes_whole = int in accepted

    def check(value: Json, path: str, _old: Json, errors: Errors) -> None:
        if takes_whole and value.__class__ is float and value.is_integer():
            return
        name = _TYPES[value.__class__]
        errors.append(type_invalid(path, name, f"{path} in body must be of type {wanted}: {go_quote(name)}"))

    return {cls: check for cls in _TYPES if cls not in accepted}


def _refusing(fails: Callable[[Json], bool], fault: Callable[[str, Json], FieldError]) -> Validator:
    """Return a check that adds `fault` of the path and the value if the value fails."""

    def check(value: Json, path: str, _old: Json, errors: Errors) -> None:
        if fails(value):
            errors.append(fault(path, value))

    return check


def _until_first_error(checks: list[Validator]) -> Validator:
    """Return a check that stops at the first error. Of length and pattern, the API server reports only the first error."""

    def check(value: str, path: str, old: Json, errors: Errors) -> None:
        before = len(errors)
        for each in checks:
            each(value, path, old, errors)
            if len(errors) > before:
                return

    return check


def _string_checks(schema: Mapping[str, Json]) -> list[Validator]:
    checks: list[Validator] = []
    if (most := schema.get("maxLength")) is not None:
        checks.append(_refusing(lambda value: len(value) > most, lambda path, _: too_long(path, most)))
    if (least := schema.get("minLength")) is not None:
        words = f"in body should be at least {least} chars long"
        checks.append(_refusing(lambda value: len(value) < least, lambda path, value: invalid(path, value, f"{path} {words}")))
    if pattern := schema.get("pattern"):
        search, wanted = compile_pattern(pattern).search, f"in body should match '{pattern}'"
        checks.append(
            _refusing(lambda value: search(value) is None, lambda path, value: invalid(path, value, f"{path} {wanted}"))
        )
    if len(checks) > 1:
        checks = [_until_first_error(checks)]
    if is_form := FORMATS.get(form := schema.get("format", "")):

        def fault(path: str, value: Json) -> FieldError:
            return type_invalid(path, value, f"{path} in body must be of type {form}: {go_quote(value)}")

        checks.append(_refusing(lambda value: not is_form(value), fault))
    return checks


def _number_checks(schema: Mapping[str, Json]) -> list[Validator]:
    checks: list[Validator] = []
    for bound, exclusive, open_word, beyond in (
        ("maximum", "exclusiveMaximum", "less than", (operator.gt, operator.ge)),
        ("minimum", "exclusiveMinimum", "greater than", (operator.lt, operator.le)),
    ):
        if (limit := schema.get(bound)) is not None:
            is_exclusive = bool(schema.get(exclusive))
            words = open_word if is_exclusive else f"{open_word} or equal to"
            checks.append(_bound(limit, words, beyond[is_exclusive]))
    if (factor := schema.get("multipleOf")) is not None:

        def check_factor(value: float, path: str, _old: Json, errors: Errors) -> None:
            own = int(factor) if value.__class__ is int else factor  # an integer is compared with the integer part
            if own <= 0 or value % own:
                errors.append(invalid(path, value, f"{path} in body should be a multiple of {_number(factor)}"))

        checks.append(check_factor)
    if schema.get("type") == "integer":
        checks.append(_range(schema.get("format", "")))
    return checks


def _range(form: str) -> Validator:
    """Return a check that an integer is within the range of its format."""
    lowest, highest = _INTEGER_LIMITS.get(form, _INTEGER_LIMITS["int64"])
    known = f"with format {form}" if form else "(default format)"

    def check(value: float, path: str, _old: Json, errors: Errors) -> None:
        if not lowest <= value <= highest or int(value) != value:
            errors.append(invalid("<nil>", "", f"Checked value must be of type integer {known} in {path}"))

    return check


def _bound(limit: float, words: str, is_beyond: Callable[[float, float], bool]) -> Validator:
    text = f"in body should be {words} {_number(limit)}"
    return _refusing(lambda value: is_beyond(value, limit), lambda path, value: invalid(path, value, f"{path} {text}"))


def _is_listed(value: Json, values: list[Json]) -> bool:
    return any(each == value and isinstance(each, bool) is isinstance(value, bool) for each in values)


def _enum_checks(schema: Mapping[str, Json]) -> list[Validator]:
    values = schema.get("enum")
    if not values:
        return []
    shown = [each if isinstance(each, str) else go_value(each) for each in values]
    texts = frozenset(each for each in values if isinstance(each, str))

    def check(value: Json, path: str, _old: Json, errors: Errors) -> None:
        if value.__class__ is str and value in texts:
            return
        if not _is_listed(value, values):
            errors.append(unsupported(path, value, shown))

    return [check]


def _junctions(schema: Mapping[str, Json]) -> list[Validator]:
    checks: list[Validator] = []
    if any_of := schema.get("anyOf"):
        checks.append(_any_of([compile_schema(each) for each in any_of]))
    if one_of := schema.get("oneOf"):
        checks.append(_one_of([compile_schema(each) for each in one_of]))
    if all_of := schema.get("allOf"):
        checks.append(_all_of([compile_schema(each) for each in all_of]))
    if isinstance(no := schema.get("not"), Mapping):
        checks.append(_not(compile_schema(no)))
    return checks


def _not(inner: Validator) -> Validator:
    def check(value: Json, path: str, _old: Json, errors: Errors) -> None:
        if not _tried(inner, value, path):
            errors.append(invalid("<nil>", "", f"{go_quote(path)} must not validate the schema (not)"))

    return check


def _tried(validator: Validator, value: Json, path: str) -> Errors:
    found: Errors = []
    validator(value, path, NO_OLD, found)
    return found


def _fewest(found: list[Errors]) -> Errors:
    return min(found, key=lambda each: len(each))  # noqa: PLW0108 - typed


def _any_of(branches: list[Validator]) -> Validator:
    def check(value: Json, path: str, _old: Json, errors: Errors) -> None:
        found: list[Errors] = []
        for branch in branches:
            found.append(_tried(branch, value, path))
            if not found[-1]:
                return
        errors.append(invalid("<nil>", "", f"{go_quote(path)} must validate at least one schema (anyOf)"))
        errors.extend(_fewest(found))

    return check


def _one_of(branches: list[Validator]) -> Validator:
    def check(value: Json, path: str, _old: Json, errors: Errors) -> None:
        found = [_tried(branch, value, path) for branch in branches]
        valid = sum(not each for each in found)
        if valid == 1:
            return
        text = f"{go_quote(path)} must validate one and only one schema (oneOf)."
        text += f" Found {valid} valid alternatives" if valid else " Found none valid"
        errors.append(invalid("<nil>", "", text))
        if not valid:
            errors.extend(_fewest(found))

    return check


def _all_of(branches: list[Validator]) -> Validator:
    def check(value: Json, path: str, _old: Json, errors: Errors) -> None:
        found = [_tried(branch, value, path) for branch in branches]
        errors.extend(error for each in found for error in each)
        if any(found):
            text = f"{go_quote(path)} must validate all the schemas (allOf)"
            errors.append(invalid("<nil>", "", f"{text}. None validated" if all(found) else text))

    return check


def _object_checks(schema: Mapping[str, Json]) -> list[Validator]:
    properties = {name: compile_schema(inner) for name, inner in (schema.get("properties") or {}).items()}
    extra = schema.get("additionalProperties")
    others = compile_schema(extra) if isinstance(extra, Mapping) else None
    needed = tuple(schema.get("required") or ())
    if schema.get("x-kubernetes-embedded-resource"):
        needed = (*needed, *(name for name in ("apiVersion", "kind") if name not in needed))
    least, most = schema.get("minProperties"), schema.get("maxProperties")
    if not properties and others is None and not needed and least is None and most is None:
        return []

    def check(value: Json, path: str, old: Json, errors: Errors) -> None:
        if least is not None and len(value) < least:
            errors.append(invalid(path, len(value), f"{path} in body should have at least {least} properties"))
        if most is not None and len(value) > most:
            errors.append(too_many(path, len(value), most))
        before = old if old.__class__ is dict else _EMPTY
        prefix = f"{path}." if path else ""
        for name, child in value.items():
            validator = properties.get(name, others)
            if validator is not None:
                validator(child, prefix + name, before.get(name, NO_OLD), errors)
        for name in needed:
            if name not in value:
                errors.append(required(prefix + name))

    return [check]


_EMPTY: Final[Mapping[str, Json]] = {}


def correlated_items(schema: Mapping[str, Json]) -> Callable[[Json, Json], Json]:
    """Return a function that finds the old item which a list item replaces, by the keys of an associative list.

    In other lists, no item replaces another.
    """
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
    if schema.get("x-kubernetes-list-type") != "map" or not keys:
        return lambda _item, _old: NO_OLD

    def find(item: Json, old: Json) -> Json:
        if not isinstance(item, dict) or not isinstance(old, list):
            return NO_OLD
        wanted = [item.get(key) for key in keys]
        for each in old:
            if isinstance(each, dict) and [each.get(key) for key in keys] == wanted:
                return each
        return NO_OLD

    return find


def _list_checks(schema: Mapping[str, Json]) -> list[Validator]:
    items = schema.get("items")
    item = compile_schema(items) if isinstance(items, Mapping) else None
    find = correlated_items(schema)
    least, most = schema.get("minItems"), schema.get("maxItems")
    if item is None and least is None and most is None:
        return []

    def check(value: Json, path: str, old: Json, errors: Errors) -> None:
        if item is not None:
            for index, each in enumerate(value):
                item(each, f"{path}[{index}]", NO_OLD if old is NO_OLD else find(each, old), errors)
        if least is not None and len(value) < least:
            errors.append(invalid(path, len(value), f"{path} in body should have at least {least} items"))
        if most is not None and len(value) > most:
            errors.append(too_many(path, len(value), most))

    return [check]


def compile_schema(schema: Mapping[str, Json]) -> Validator:
    """Return the validator of `schema`. Raises BadPattern: a pattern is not a regular expression."""
    wrong_type = _type_checks(schema)
    junctions, enums = _junctions(schema), _enum_checks(schema)
    own = {
        str: [*junctions, *_string_checks(schema), *enums],
        int: [*junctions, *_number_checks(schema), *enums],
        bool: [*junctions, *enums],
        list: [*junctions, *_list_checks(schema), *enums],
        dict: [*junctions, *enums, *_object_checks(schema)],
        type(None): enums,
    }
    own[float] = own[int]
    by_type = {cls: tuple([wrong_type[cls], *checks] if cls in wrong_type else checks) for cls, checks in own.items()}

    def validate(value: Json, path: str, old: Json, errors: Errors) -> None:
        if old is not NO_OLD and old == value:
            return  # an unchanged value may stay invalid
        for check in by_type[value.__class__]:
            check(value, path, old, errors)

    return validate
