"""Parses method and path to verb, group, version, namespace, resource, name and subresource.

This is a separate module because the authorizer, the audit log and the dispatcher must all use the same result.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

import msgspec

from pyroclast_standalone.apiserver.requests.status import StatusError

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "HEAD": "get"}
_NAMESPACE_SUBRESOURCES: Final = {"status", "finalize"}
_FALSE: Final = {"0", "false"}


class Query:
    """Query parameters. Only the first value of each is used."""

    __slots__ = ("values",)

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = values

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def text(self, name: str) -> str:
        """Return the parameter, empty when it is missing."""
        return self.values.get(name, "")

    def flag(self, name: str) -> bool:
        """Return True unless the parameter is missing, `0` or `false`."""
        value = self.values.get(name)
        return value is not None and value.lower() not in _FALSE

    def number(self, name: str) -> int | None:
        """Return the parameter as an integer. None when it is missing or empty."""
        value = self.values.get(name)
        if not value:
            return None
        try:
            return int(value)
        except ValueError:
            raise StatusError(400, "BadRequest", f'strconv.ParseInt: parsing "{value}": invalid syntax') from None


class RequestInfo(msgspec.Struct, frozen=True):
    """A parsed request, or what a review asks about. `resource` is empty for a path such as `/version` or `/openapi/v3`."""

    verb: str
    path: str = ""
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""  # the path after the subresource, such as that of a proxy

    @property
    def is_resource(self) -> bool:
        """Whether the request is for an API resource."""
        return bool(self.resource)

    @property
    def full_resource(self) -> str:
        """The resource with its subresource, such as `pods/log`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def resolve(method: str, path: str, query: Query) -> RequestInfo:
    """Parse `path`, which is still percent-encoded, as kube-apiserver does."""
    return _resolve(method, path, query) if query.values else _resolve_plain(method, path)


@lru_cache(maxsize=1024)
def _resolve_plain(method: str, path: str) -> RequestInfo:
    return _resolve(method, path, Query({}))


def _resolve(method: str, path: str, query: Query) -> RequestInfo:
    parts = [part for part in path.split("/") if part]
    if "%" in path:
        parts = list(map(unquote, parts))
    method_verb = _VERBS.get(method, method.lower())
    match parts:
        case ["api", version, *rest] if rest:
            group = ""
        case ["apis", group, version, *rest] if rest:
            pass
        case _:
            return RequestInfo(method_verb, path)

    is_watch = method_verb == "get" and rest[0] == "watch" and len(rest) > 1
    if is_watch:
        rest = rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and not (len(rest) == 3 and rest[2] in _NAMESPACE_SUBRESOURCES):
            rest = rest[2:]
    resource = rest[0]
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    verb = method_verb
    if is_watch:
        verb, name = "watch", name or _named_by_selector(query)
    elif not name:
        if verb == "get":
            verb = "watch" if query.flag("watch") else "list"
            name = _named_by_selector(query)
        elif verb == "delete":
            verb = "deletecollection"
    return RequestInfo(verb, path, group, version, namespace, resource, name, subresource, "/".join(rest[3:]))


def _named_by_selector(query: Query) -> str:
    """Return the name in a list or watch of one object. Rules with resourceNames then allow the request."""
    for term in query.text("fieldSelector").split(","):
        field, equals, value = term.partition("=")
        if field == "metadata.name" and equals:
            return value.removeprefix("=")
    return ""
