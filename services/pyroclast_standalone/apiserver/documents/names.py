"""Forms of names and keys: what may be a label, a DNS name, a port name; each check returns the sentences that apply.

Answers are shared: do not change the lists.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias

__all__ = [
    "NameRule",
    "config_map_key",
    "dns_label",
    "dns_service_label",
    "dns_subdomain",
    "env_var_name",
    "label_key",
    "label_value",
    "path_segment",
    "port_name",
    "regex_sentence",
]

NameRule: TypeAlias = Callable[[str], list[str]]
"""Takes a name, returns what is wrong with it as sentences; empty when it is right."""

_LABEL_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE: Final = f"({_LABEL_KEY})?"
_DNS_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN: Final = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"
_DNS_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_CONFIG_KEY: Final = "[-._a-zA-Z0-9]+"

_is_label_key = re.compile(_LABEL_KEY).fullmatch
_is_label_value = re.compile(_LABEL_VALUE).fullmatch
_is_dns_label = re.compile(_DNS_LABEL).fullmatch
_is_dns_subdomain = re.compile(_DNS_SUBDOMAIN).fullmatch
_is_dns_1035 = re.compile(_DNS_1035).fullmatch
_is_config_key = re.compile(_CONFIG_KEY).fullmatch
_is_port = re.compile("[-a-z0-9]+").fullmatch
_has_letter = re.compile("[a-z]").search
_is_printable = re.compile("[ -~]+").fullmatch

_KEY_TEXT: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_VALUE_TEXT: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_DNS_1035_TEXT: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character"
)


def regex_sentence(text: str, pattern: str, *examples: str) -> str:
    """`text` with the examples and the pattern, as the API words a value that does not match."""
    shown = " or ".join(f"'{example}', " for example in examples)
    return (
        f"{text} (e.g. {shown}regex used for validation is '{pattern}')"
        if examples
        else f"{text} (regex used for validation is '{pattern}')"
    )


def _at_most(value: str, length: int, unit: str = "characters") -> list[str]:
    return [f"must be no more than {length} {unit}"] if len(value.encode()) > length else []


@lru_cache(maxsize=4096)
def label_value(value: str) -> list[str]:
    """What is wrong with `value` as the value of a label."""
    if _is_label_value(value) and len(value) <= 63:
        return []
    errors = _at_most(value, 63, "bytes")
    if not _is_label_value(value):
        errors.append(regex_sentence(_VALUE_TEXT, _LABEL_VALUE, "MyValue", "my_value", "12345"))
    return errors


@lru_cache(maxsize=4096)
def label_key(value: str) -> list[str]:
    """What is wrong with `value` as the key of a label, a qualified name: an optional DNS prefix, a slash and a name."""
    prefix, slash, name = value.rpartition("/")
    sentence = regex_sentence(_KEY_TEXT, _LABEL_KEY, "MyName", "my.name", "123-abc")
    if "/" in prefix:
        return [f"a valid label key {sentence} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    errors = []
    if slash:
        problems = [*_at_most(prefix, 253, "bytes"), *_not_subdomain(prefix)] if prefix else ["must be non-empty"]
        errors = [f"prefix part {each}" for each in problems]
    if not name:
        errors.append("name part must be non-empty")
    errors += [f"name part {each}" for each in _at_most(name, 63, "bytes")]
    if not _is_label_key(name):
        errors.append(f"name part {sentence}")
    return errors


@lru_cache(maxsize=4096)
def dns_label(value: str) -> list[str]:
    """What is wrong with `value` as a label of RFC 1123 (namespaces, containers)."""
    if _is_dns_label(value) and len(value) <= 63:
        return []
    errors = _at_most(value, 63)
    if _is_dns_label(value):
        return errors
    if _is_dns_subdomain(value):
        return [*errors, "must not contain dots"]
    return [*errors, regex_sentence(_LABEL_TEXT, _DNS_LABEL, "my-name", "123-abc")]


def _not_subdomain(value: str) -> list[str]:
    return [] if _is_dns_subdomain(value) else [regex_sentence(_SUBDOMAIN_TEXT, _DNS_SUBDOMAIN, "example.com")]


@lru_cache(maxsize=4096)
def dns_subdomain(value: str) -> list[str]:
    """What is wrong with `value` as a subdomain of RFC 1123 (most names of objects)."""
    if _is_dns_subdomain(value) and len(value) <= 253:
        return []
    return [*_at_most(value, 253), *_not_subdomain(value)]


def dns_service_label(value: str) -> list[str]:
    """What is wrong with `value` as a label of RFC 1035 (services)."""
    errors = _at_most(value, 63)
    if not _is_dns_1035(value):
        errors.append(regex_sentence(_DNS_1035_TEXT, _DNS_1035, "my-name", "abc-123"))
    return errors


def path_segment(value: str) -> list[str]:
    """What is wrong with `value` as a segment of a path (names of RBAC objects)."""
    if value in {".", ".."}:
        return [f"may not be '{value}'"]
    return [f"may not contain '{each}'" for each in ("/", "%") if each in value]


def config_map_key(value: str) -> list[str]:
    """What is wrong with `value` as a key of a ConfigMap or Secret."""
    errors = _at_most(value, 253)
    if not _is_config_key(value):
        text = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        errors.append(regex_sentence(text, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    if value == ".":
        errors.append("must not be '.'")
    elif value == "..":
        errors.append("must not be '..'")
    elif value.startswith(".."):
        errors.append("must not start with '..'")
    return errors


@lru_cache(maxsize=4096)
def env_var_name(value: str) -> list[str]:
    """What is wrong with `value` as the name of an environment variable."""
    if not value:
        return ["environment variable name must be non-empty"]
    if not _is_printable(value) or "=" in value:
        return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]
    return []


@lru_cache(maxsize=1024)
def port_name(value: str) -> list[str]:
    """What is wrong with `value` as the name of a port (RFC 6335)."""
    errors = []
    if len(value) > 15:
        errors.append("must be no more than 15 characters")
    if not _is_port(value):
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _has_letter(value):
        errors.append("must contain at least one letter (a-z)")
    if "--" in value:
        errors.append("must not contain consecutive hyphens")
    if value and (value[0] == "-" or value[-1] == "-"):
        errors.append("must not begin or end with a hyphen")
    return errors
