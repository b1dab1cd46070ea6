"""The rules of Kubernetes for names. Each function returns the faults of a name as sentences; none for a valid name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeAlias

NameRule: TypeAlias = Callable[[str], Sequence[str]]
"""A rule takes a name and returns its faults as sentences; none for a valid name."""

LABEL_LIMIT = 63
SUBDOMAIN_LIMIT = 253
PORT_NAME_LIMIT = 15

_CACHED = 4096
"""How many names are cached with their faults; label keys and names of resources and containers recur all the time."""

_NAME_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PORT = re.compile(r"[-a-z0-9]+")

_BAD_NAME_PART = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_BAD_LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
    "an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_BAD_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    "alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_BAD_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with "
    "an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


_LONG, _LONG_PREFIX = (f"must be no more than {SUBDOMAIN_LIMIT} {unit}" for unit in ("characters", "bytes"))
_SERVICE_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_PRINTABLE = re.compile(r"[ -~]+")


def regex_sentence(text: str, pattern: str, *examples: str) -> str:
    """Return `text` with the examples and the pattern, in Kubernetes' words for a value that does not match."""
    shown = " or ".join(f"'{example}', " for example in examples)
    return (
        f"{text} (e.g. {shown}regex used for validation is '{pattern}')"
        if shown
        else f"{text} (regex used for validation is '{pattern}')"
    )


_BAD_SERVICE_LABEL = regex_sentence(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character",
    _SERVICE_LABEL.pattern, "my-name", "abc-123",
)  # fmt: skip
_BAD_CONFIG_KEY = regex_sentence(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    _CONFIG_KEY.pattern, "key.name", "KEY_NAME", "key-name",
)  # fmt: skip


@lru_cache(_CACHED)
def qualified_name(value: str) -> tuple[str, ...]:
    """Return the faults of `value` as a label key: `name` or `prefix/name`."""
    parts = value.split("/")
    if len(parts) > 2:
        return (f"a valid label key {_BAD_NAME_PART} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",)
    problems: list[str] = []
    if len(parts) == 2:
        if not parts[0]:
            problems.append("prefix part must be non-empty")
        else:
            problems += [f"prefix part {problem.replace(_LONG, _LONG_PREFIX)}" for problem in dns_subdomain(parts[0])]
    name = parts[-1]
    if not name:
        problems.append("name part must be non-empty")
    elif _bytes(name) > LABEL_LIMIT:
        problems.append(f"name part must be no more than {LABEL_LIMIT} bytes")
    if not _NAME_PART.fullmatch(name):
        problems.append(f"name part {_BAD_NAME_PART}")
    return tuple(problems)


def _faults(value: str, limit: int, *checks: tuple[object, str], unit: str = "characters") -> tuple[str, ...]:
    """Return the sentences of the checks that do not hold, after that of a value longer than `limit` bytes."""
    long = (f"must be no more than {limit} {unit}",) if _bytes(value) > limit else ()
    return (*long, *(sentence for holds, sentence in checks if not holds))


@lru_cache(_CACHED)
def label_value(value: str) -> tuple[str, ...]:
    """Return the faults of `value` as the value of a label."""
    return _faults(value, LABEL_LIMIT, (_LABEL_VALUE.fullmatch(value), _BAD_LABEL_VALUE), unit="bytes")


@lru_cache(_CACHED)
def dns_label(value: str) -> tuple[str, ...]:
    """Return the faults of `value` as a DNS-1123 label."""
    sentence = "must not contain dots" if _SUBDOMAIN.fullmatch(value) else _BAD_LABEL
    return _faults(value, LABEL_LIMIT, (_LABEL.fullmatch(value), sentence))


@lru_cache(_CACHED)
def dns_subdomain(value: str) -> tuple[str, ...]:
    """Return the faults of `value` as a DNS-1123 subdomain."""
    return _faults(value, SUBDOMAIN_LIMIT, (_SUBDOMAIN.fullmatch(value), _BAD_SUBDOMAIN))


@lru_cache(_CACHED)
def port_name(value: str) -> tuple[str, ...]:
    """Return the faults of `value` as the name of a port."""
    return _faults(
        value,
        PORT_NAME_LIMIT,
        (_PORT.fullmatch(value), "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
        (re.search("[a-z]", value), "must contain at least one letter (a-z)"),
        ("--" not in value, "must not contain consecutive hyphens"),
        (not value.startswith("-") and not value.endswith("-"), "must not begin or end with a hyphen"),
    )


def dns_service_label(value: str) -> tuple[str, ...]:
    """Return the faults of `value` as a DNS-1035 label, the name of a Service."""
    return _faults(value, LABEL_LIMIT, (_SERVICE_LABEL.fullmatch(value), _BAD_SERVICE_LABEL))


def path_segment(value: str) -> tuple[str, ...]:
    """Return the faults of `value` as a segment of a path (names of RBAC objects)."""
    if value in {".", ".."}:
        return (f"may not be '{value}'",)
    return tuple(f"may not contain '{each}'" for each in ("/", "%") if each in value)


@lru_cache(_CACHED)
def config_map_key(value: str) -> tuple[str, ...]:
    """Return the faults of `value` as a key of a ConfigMap or Secret."""
    return _faults(
        value,
        SUBDOMAIN_LIMIT,
        (_CONFIG_KEY.fullmatch(value), _BAD_CONFIG_KEY),
        (value not in {".", ".."}, f"must not be '{value}'"),
        (value == ".." or not value.startswith(".."), "must not start with '..'"),
    )


@lru_cache(_CACHED)
def env_var_name(value: str) -> tuple[str, ...]:
    """Return the faults of `value` as the name of an environment variable."""
    if not value:
        return ("environment variable name must be non-empty",)
    if not _PRINTABLE.fullmatch(value) or "=" in value:
        return ("a valid environment variable name must consist only of printable ASCII characters other than '='",)
    return ()


def _bytes(value: str) -> int:
    return len(value) if value.isascii() else len(value.encode(errors="surrogatepass"))
