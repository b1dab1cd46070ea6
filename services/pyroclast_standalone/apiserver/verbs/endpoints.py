"""The non-resource endpoints: version, health, discovery, OpenAPI."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from typing import Any, Final

import orjson

from pyroclast_standalone.apiserver.documents import openapi
from pyroclast_standalone.apiserver.requests import status
from pyroclast_standalone.apiserver.requests.context import Answer, Context
from pyroclast_standalone.apiserver.requests.negotiate import discovery_version, wanted
from pyroclast_standalone.apiserver.requests.present import json_answer
from pyroclast_standalone.apiserver.storage.registry import Registry, Resource
from pyroclast_standalone.apiserver.verbs.discovery import Discovery

VERSION: Final = "v1.36.1"
_PROTOBUF_OPENAPI: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_HEALTH: Final = {"/healthz", "/livez", "/readyz"}


class Endpoints:
    """Answers requests for non-resource paths."""

    def __init__(self, registry: Registry, discovery: Discovery) -> None:
        self._registry = registry
        self._discovery = discovery
        self._documents: dict[str, bytes] = {}
        self._generation = -1

    def answer(self, context: Context) -> Answer:
        """Return the answer to a GET.

        Raises:
            StatusError: the path does not exist, or no acceptable form is available.
        """
        path = context.info.path
        parts = [part for part in path.split("/") if part]
        match parts:
            case []:
                return json_answer({"paths": self._paths()})
            case ["version"]:
                return json_answer(_version())
            case [health, *_] if f"/{health}" in _HEALTH:
                return Answer(200, b"ok", "text/plain; charset=utf-8")
            case ["api" | "apis", *_]:
                return self._discover(context, parts)
            case ["openapi", "v2"]:
                return Answer(200, b"", _PROTOBUF_OPENAPI)
            case ["openapi", "v3", *rest]:
                return self._openapi(context, "/".join(rest))
            case _:
                raise status.no_such_path()

    def _paths(self) -> list[str]:
        paths = ["/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
        for group, versions in self._registry.groups().items():
            paths += [f"/apis/{group}/{version}" if group else f"/api/{version}" for version in versions]
            paths += [f"/apis/{group}"] if group else []
        return sorted(paths)

    def _discover(self, context: Context, parts: list[str]) -> Answer:
        accept = context.headers.get("Accept", "")
        aggregated = discovery_version(accept) if len(parts) == 1 else ""
        if aggregated:
            document = self._discovery.aggregated(parts[0], aggregated)
        else:
            wanted(accept)
            found = self._discovery.legacy(*parts)
            if found is None:
                is_known = self._registry.is_builtin_group(parts[1] if parts[0] == "apis" else "")
                raise status.unknown_resource() if is_known else status.no_such_path()
            document = found
        headers = {"Vary": "Accept"}
        if len(parts) == 1:
            headers |= {"ETag": document.etag, "Cache-Control": "public"}
            if context.headers.get("If-None-Match") == document.etag:
                return Answer(304, b"", "", headers)
        return Answer(200, document.body, document.content_type, headers)

    # --- OpenAPI ------------------------------------------------------------------------------------------------

    def _openapi(self, context: Context, name: str) -> Answer:
        if self._generation != self._registry.generation:
            custom = {each.group for each in self._registry.resources() if each.is_custom}
            gone = [key for key in self._documents if key == "" or key.split("/")[1] in custom or self._groups_of(key) is None]
            for key in gone:
                del self._documents[key]
            self._generation = self._registry.generation
        if not name:
            return self._index(context)
        group_version = self._groups_of(name)
        if group_version is None:
            raise status.no_such_path()
        body = self._documents.get(name)
        if body is None:
            served = [_served(each) for each in self._registry.resources(*group_version)]
            body = self._documents[name] = orjson.dumps(openapi.document(*group_version, served))
        etag = f'"{self._hash(*group_version)}"'
        headers = {"Vary": "Accept", "ETag": etag}
        if context.query.text("hash"):
            headers["Cache-Control"] = "public, immutable"
        if context.headers.get("If-None-Match") == etag:
            return Answer(304, b"", "", headers)
        return Answer(200, body, "application/json", headers)

    def _index(self, context: Context) -> Answer:
        paths = {}
        for group, versions in self._registry.groups().items():
            for version in versions:
                name = f"apis/{group}/{version}" if group else f"api/{version}"
                paths[name] = {"serverRelativeURL": f"/openapi/v3/{name}?hash={self._hash(group, version)}"}
        answer = json_answer({"paths": paths})
        etag = f'"{hashlib.sha256(answer.body).hexdigest().upper()}"'
        headers = {"Vary": "Accept", "ETag": etag}
        if context.headers.get("If-None-Match") == etag:
            return Answer(304, b"", "", headers)
        answer.headers = headers
        answer.content_type = "text/plain; charset=utf-8"
        return answer

    def _groups_of(self, name: str) -> tuple[str, str] | None:
        match name.split("/"):
            case ["api", version] if version in self._registry.groups()[""]:
                return "", version
            case ["apis", group, version] if version in self._registry.groups().get(group, ()):
                return group, version
            case _:
                return None

    def _hash(self, group: str, version: str) -> str:
        """Return a hash that changes with the document of the group-version."""
        resources = self._registry.resources(group, version)
        schemas = [_schema_of(each) if each.is_custom else None for each in resources]
        content = orjson.dumps([VERSION, [each.plural for each in resources], schemas], option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(content).hexdigest().upper()


def _schema_of(resource: Resource) -> Mapping[str, Any] | None:
    source = resource.strategy.schema.source
    return source or None


def _served(resource: Resource) -> openapi.ServedResource:
    return openapi.ServedResource(
        resource.group,
        resource.version,
        resource.kind,
        resource.plural,
        resource.namespaced,
        tuple(resource.strategy.verbs),
        _schema_of(resource) if resource.is_custom else None,
    )


def _version() -> dict[str, str]:
    major, minor, _ = VERSION.removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(minor) - 1),
        "gitVersion": VERSION,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "gc",
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }
