"""Names as Kubernetes checks them: each function gives the sentences that speak against a name, none when it is right."""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["dns_label", "dns_subdomain", "label_value", "port_name", "qualified_name"]

LABEL_LIMIT = 63
SUBDOMAIN_LIMIT = 253
PORT_NAME_LIMIT = 15

_CACHED = 4096
"""Names kept with their verdict: label keys, resource and container names come back all the time."""

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


@lru_cache(_CACHED)
def qualified_name(value: str) -> tuple[str, ...]:
    """Against `value` as a label key: `name` or `prefix/name`."""
    parts = value.split("/")
    if len(parts) > 2:
        return (f"a valid label key {_BAD_NAME_PART} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",)
    problems: list[str] = []
    if len(parts) == 2:
        if not parts[0]:
            problems.append("prefix part must be non-empty")
        else:
            problems += [f"prefix part {problem}" for problem in dns_subdomain(parts[0])]
    name = parts[-1]
    if not name:
        problems.append("name part must be non-empty")
    elif _bytes(name) > LABEL_LIMIT:
        problems.append(f"name part must be no more than {LABEL_LIMIT} bytes")
    if not _NAME_PART.fullmatch(name):
        problems.append(f"name part {_BAD_NAME_PART}")
    return tuple(problems)


@lru_cache(_CACHED)
def label_value(value: str) -> tuple[str, ...]:
    """Against `value` as the value of a label."""
    problems: list[str] = []
    if _bytes(value) > LABEL_LIMIT:
        problems.append(f"must be no more than {LABEL_LIMIT} bytes")
    if not _LABEL_VALUE.fullmatch(value):
        problems.append(_BAD_LABEL_VALUE)
    return tuple(problems)


@lru_cache(_CACHED)
def dns_label(value: str) -> tuple[str, ...]:
    """Against `value` as a DNS-1123 label."""
    problems: list[str] = []
    if _bytes(value) > LABEL_LIMIT:
        problems.append(f"must be no more than {LABEL_LIMIT} characters")
    if not _LABEL.fullmatch(value):
        problems.append("must not contain dots" if _SUBDOMAIN.fullmatch(value) else _BAD_LABEL)
    return tuple(problems)


@lru_cache(_CACHED)
def dns_subdomain(value: str) -> tuple[str, ...]:
    """Against `value` as a DNS-1123 subdomain."""
    problems: list[str] = []
    if _bytes(value) > SUBDOMAIN_LIMIT:
        problems.append(f"must be no more than {SUBDOMAIN_LIMIT} characters")
    if not _SUBDOMAIN.fullmatch(value):
        problems.append(_BAD_SUBDOMAIN)
    return tuple(problems)


@lru_cache(_CACHED)
def port_name(value: str) -> tuple[str, ...]:
    """Against `value` as the name of a port."""
    problems: list[str] = []
    if _bytes(value) > PORT_NAME_LIMIT:
        problems.append(f"must be no more than {PORT_NAME_LIMIT} characters")
    if not _PORT.fullmatch(value):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        problems.append("must contain at least one letter (a-z)")
    if "--" in value:
        problems.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        problems.append("must not begin or end with a hyphen")
    return tuple(problems)


def _bytes(value: str) -> int:
    return len(value) if value.isascii() else len(value.encode(errors="surrogatepass"))
