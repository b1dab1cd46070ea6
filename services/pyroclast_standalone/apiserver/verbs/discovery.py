"""Discovery documents, legacy and aggregated, cached until the served resources change."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from pyroclast_standalone.apiserver.kinds.builtins import Subresource
from pyroclast_standalone.apiserver.storage.registry import Registry, Resource


class Document:
    """A complete answer: bytes with their ETag and content type."""

    __slots__ = ("body", "content_type", "etag")

    def __init__(self, body: dict[str, Any], content_type: str) -> None:
        self.body = orjson.dumps(body)
        self.content_type = content_type
        self.etag = f'"{hashlib.sha256(self.body).hexdigest().upper()}"'


class Discovery:
    """Answers `/api`, `/apis`, and the documents of groups and group-versions."""

    def __init__(self, registry: Registry) -> None:
        self.address = ""  # host and port for clients
        self._registry = registry
        self._generation = -1
        self._made: dict[tuple[str, ...], Document] = {}

    def _cached(self, *key: str) -> Document | None:
        if self._generation != self._registry.generation:
            self._made.clear()
            self._generation = self._registry.generation
        return self._made.get(key)

    def aggregated(self, root: str, version: str) -> Document:
        """Return the `APIGroupDiscoveryList` of the core group (`root` is `api`) or of all other groups (`apis`)."""
        found = self._cached("aggregated", root, version)
        if found is None:
            groups = [""] if root == "api" else [group for group in self._registry.groups() if group]
            body = {
                "kind": "APIGroupDiscoveryList",
                "apiVersion": f"apidiscovery.k8s.io/{version}",
                "metadata": {},
                "items": [self._aggregated_group(group) for group in groups],
            }
            content_type = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
            found = self._made["aggregated", root, version] = Document(body, content_type)
        return found

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

    def legacy(self, *path: str) -> Document | None:
        """Return the legacy document of `api`, `apis`, `apis/GROUP` or a group-version. None when it does not exist."""
        found = self._cached("legacy", *path)
        if found is None:
            body = self._legacy(path)
            if body is None:
                return None
            found = self._made["legacy", *path] = Document(body, "application/json")
        return found

    def _legacy(self, path: tuple[str, ...]) -> dict[str, Any] | None:
        groups = self._registry.groups()
        match path:
            case ("api",):
                addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": self.address}]
                return {"kind": "APIVersions", "versions": groups[""], "serverAddressByClientCIDRs": addresses}
            case ("apis",):
                return {
                    "kind": "APIGroupList",
                    "apiVersion": "v1",
                    "groups": [_group(name, versions) for name, versions in groups.items() if name],
                }
            case ("apis", group) if group in groups:
                return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, groups[group])}
            case ("api", version):
                return self._resource_list("", version)
            case ("apis", group, version):
                return self._resource_list(group, version)
            case _:
                return None

    def _resource_list(self, group: str, version: str) -> dict[str, Any] | None:
        if version not in self._registry.groups().get(group, ()):
            return None
        entries: list[dict[str, Any]] = []
        for resource in self._registry.resources(group, version):
            entries.append(_legacy_entry(resource))
            entries += [_legacy_subresource(resource, each) for each in resource.strategy.subresources]
        group_version = f"{group}/{version}" if group else version
        head = {"kind": "APIResourceList", "apiVersion": "v1"} if group else {"kind": "APIResourceList"}
        return {**head, "groupVersion": group_version, "resources": entries}


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
