"""The paths that are no resources: discovery, legacy and aggregated, OpenAPI, version and health."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable
from typing import Any, Final

import orjson

from pyroclast_standalone.apiserver.kinds.builtins import Subresource
from pyroclast_standalone.apiserver.requests import status
from pyroclast_standalone.apiserver.requests.context import Answer, Context, discovery_version, wanted
from pyroclast_standalone.apiserver.requests.present import json_answer
from pyroclast_standalone.apiserver.storage.registry import Registry, Resource
from pyroclast_standalone.apiserver.verbs import openapi

VERSION: Final = "v1.36.1"
_PROTOBUF_OPENAPI: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_HEALTH: Final = {"/healthz", "/livez", "/readyz"}


class Discovery:
    """Answers requests for paths that are no resources: discovery, OpenAPI, version and health."""

    def __init__(self, registry: Registry) -> None:
        self.address = ""  # host and port for clients
        self._registry = registry
        self._generation = -1
        self._made: dict[tuple[str, ...], Answer] = {}

    def answer(self, context: Context) -> Answer:
        """Return the answer to a GET."""
        parts = [part for part in context.info.path.split("/") if part]
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
        if version := discovery_version(accept) if len(parts) == 1 else "":
            content_type = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
            found = self._made_once(
                ("aggregated", *parts, version), lambda: _document(self._aggregated(parts[0], version), content_type)
            )
        else:
            wanted(accept)
            found = self._made_once(tuple(parts), lambda: _document(self._legacy(parts), "application/json"))
        if len(parts) > 1:
            return Answer(200, found.body, found.content_type, {"Vary": "Accept"})
        return _if_changed(context, found, "public")

    def _openapi(self, context: Context, name: str) -> Answer:
        found = self._made_once(("openapi", name), lambda: self._schemas_of(name) if name else self._index())
        return _if_changed(context, found, "public, immutable" if name and context.query.text("hash") else "")

    def _made_once(self, key: tuple[str, ...], make: Callable[[], Answer]) -> Answer:
        """Return the answer of `make`, until the served resources change."""
        if self._generation != self._registry.generation:
            self._made.clear()
            self._generation = self._registry.generation
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def _aggregated(self, root: str, version: str) -> dict[str, Any]:
        """Return the `APIGroupDiscoveryList` of the core group (`root` is `api`) or of all other groups (`apis`)."""
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": f"apidiscovery.k8s.io/{version}",
            "metadata": {},
            "items": [self._aggregated_group(group) for group in self._registry.groups() if bool(group) == (root == "apis")],
        }

    def _aggregated_group(self, group: str) -> dict[str, Any]:
        return {
            "metadata": {"name": group} if group else {},
            "versions": [
                {
                    "version": version,
                    "resources": [_aggregated(resource) for resource in self._registry.resources(group, version)],
                    "freshness": "Current",
                }
                for version in self._registry.groups()[group]
            ],
        }

    def _legacy(self, path: list[str]) -> dict[str, Any]:
        """Return the legacy document of `api`, `apis`, `apis/GROUP` or a group-version."""
        groups = self._registry.groups()
        match path:
            case ["api"]:
                addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": self.address}]
                return {"kind": "APIVersions", "versions": groups[""], "serverAddressByClientCIDRs": addresses}
            case ["apis"]:
                return {
                    "kind": "APIGroupList",
                    "apiVersion": "v1",
                    "groups": [_group(name, versions) for name, versions in groups.items() if name],
                }
            case ["apis", group] if group in groups:
                return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, groups[group])}
            case ["api", version] if version in groups[""]:
                return self._resource_list("", version)
            case ["apis", group, version] if version in groups.get(group, ()):
                return self._resource_list(group, version)
            case _:
                is_known = self._registry.is_builtin_group(path[1] if path[0] == "apis" else "")
                raise status.unknown_resource() if is_known else status.no_such_path()

    def _resource_list(self, group: str, version: str) -> dict[str, Any]:
        entries: list[dict[str, Any]] = []
        for resource in self._registry.resources(group, version):
            entries.append(_legacy_entry(resource))
            entries += [_legacy_subresource(resource, each) for each in resource.strategy.subresources]
        group_version = f"{group}/{version}" if group else version
        head = {"kind": "APIResourceList", "apiVersion": "v1"} if group else {"kind": "APIResourceList"}
        return {**head, "groupVersion": group_version, "resources": entries}

    def _index(self) -> Answer:
        paths = {}
        for group, versions in self._registry.groups().items():
            for version in versions:
                name = f"apis/{group}/{version}" if group else f"api/{version}"
                paths[name] = {"serverRelativeURL": f"/openapi/v3/{name}?hash={self._hash(group, version)}"}
        return _document({"paths": paths}, "text/plain; charset=utf-8")

    def _schemas_of(self, name: str) -> Answer:
        """Return the OpenAPI document of a group-version, by its path."""
        match name.split("/"):
            case ["api", version] if version in self._registry.groups()[""]:
                group = ""
            case ["apis", group, version] if version in self._registry.groups().get(group, ()):
                pass
            case _:
                raise status.no_such_path()
        body = orjson.dumps(openapi.document(self._registry.resources(group, version)))
        return Answer(200, body, "application/json", {"Vary": "Accept", "ETag": f'"{self._hash(group, version)}"'})

    def _hash(self, group: str, version: str) -> str:
        """Return a hash that changes with the document of the group-version."""
        resources = self._registry.resources(group, version)
        schemas = [each.strategy.schema.source if each.is_custom else None for each in resources]
        content = orjson.dumps([VERSION, [each.plural for each in resources], schemas], option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(content).hexdigest().upper()


def _document(body: dict[str, Any], content_type: str) -> Answer:
    """Return a complete answer with its ETag."""
    data = orjson.dumps(body)
    return Answer(200, data, content_type, {"Vary": "Accept", "ETag": f'"{hashlib.sha256(data).hexdigest().upper()}"'})


def _if_changed(context: Context, answer: Answer, caching: str) -> Answer:
    """Return the answer to a client that may have it already. `caching`: the value of `Cache-Control`, empty for the default."""
    headers = {**answer.headers, "Cache-Control": caching} if caching else answer.headers
    if context.headers.get("If-None-Match") == answer.headers["ETag"]:
        return Answer(304, b"", "", headers)
    return Answer(200, answer.body, answer.content_type, headers)


def _group(name: str, versions: list[str]) -> dict[str, Any]:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _kind(resource: Resource, kind: str, group: str = "", version: str = "") -> dict[str, str]:
    """Return the response kind. Built-in resources omit group and version if these are their own."""
    if resource.is_custom and not group:
        group, version = resource.group, resource.version
    return {"group": group, "version": version, "kind": kind}


def _common(resource: Resource) -> dict[str, Any]:
    """Return the last fields of both forms of discovery."""
    strategy = resource.strategy
    lists = {"verbs": strategy.verbs, "shortNames": strategy.short_names, "categories": strategy.categories}
    return {name: list(values) for name, values in lists.items() if values or name == "verbs"}


def _aggregated(resource: Resource) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": _kind(resource, resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.strategy.singular,
        **_common(resource),
    }
    if resource.strategy.subresources:
        entry["subresources"] = [
            {
                "subresource": each.name,
                "responseKind": _kind(resource, each.kind, each.group, each.version),
                "verbs": list(each.verbs),
            }
            for each in resource.strategy.subresources
        ]
    return entry


def _legacy_entry(resource: Resource) -> dict[str, Any]:
    names = {"name": resource.plural, "singularName": resource.strategy.singular}
    return {**names, "namespaced": resource.namespaced, "kind": resource.kind, **_common(resource)}


def _legacy_subresource(resource: Resource, subresource: Subresource) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": f"{resource.plural}/{subresource.name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": subresource.kind,
        "verbs": list(subresource.verbs),
    }
    if subresource.group:
        entry.update(group=subresource.group, version=subresource.version)
    return entry


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
