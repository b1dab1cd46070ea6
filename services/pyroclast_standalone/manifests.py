"""Reads manifests from files as kubectl does, and finds the resource type of each."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson
import yaml

from pyroclast.api.types import Key, ResourceType
from pyroclast.kube.basics.errors import NotFound
from pyroclast.kube.http.client import Client
from pyroclast_standalone.directory import CommandError

Manifest = dict[str, Any]


def read(paths: Iterable[Path]) -> list[Manifest]:
    """Return all objects in the YAML or JSON files and folders of `paths`, with Lists expanded, in order."""
    found: list[Manifest] = []
    for path in _files(paths):
        try:
            documents = list(yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader))
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror}; give the path of a manifest") from error
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise CommandError(f"{path}: not YAML: {_one_line(error)}") from error
        for position, document in enumerate(documents, 1):
            if document is not None:
                found.extend(_objects(document, f"{path}, document {position}"))
    if not found:
        raise CommandError(f"{', '.join(map(str, paths))}: no objects in there; give at least one manifest")
    return found


def key_of(manifest: Manifest, kind: ResourceType) -> Key:
    """Return namespace and name of an object. The namespace of a namespaced kind is `default` if none is given."""
    metadata = manifest["metadata"]
    return Key(metadata.get("namespace") or "default" if kind.namespaced else "", metadata.get("name", ""))


def has_all(found: object, wanted: object) -> bool:
    """Return whether `found` has every field of `wanted` with the same value. Further fields in `found` are ignored."""
    match found, wanted:
        case dict(), dict():
            return all(name in found and has_all(found[name], value) for name, value in wanted.items())
        case list(), list():
            return len(found) == len(wanted) and all(map(has_all, found, wanted))
    return found == wanted


def _files(paths: Iterable[Path]) -> Iterable[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(file for file in path.iterdir() if file.suffix in (".yaml", ".yml", ".json"))
        else:
            yield path


def _objects(document: object, where: str) -> Iterable[Manifest]:
    if not isinstance(document, dict):
        raise CommandError(
            f"{where}: a manifest is a mapping with apiVersion, kind and metadata, this is a {type(document).__name__}"
        )
    if document.get("kind") == "List" and isinstance(document.get("items"), list):
        for position, item in enumerate(document["items"]):
            yield from _objects(item, f"{where}, items[{position}]")
        return
    for name in ("apiVersion", "kind"):
        if not isinstance(document.get(name), str) or not document[name]:
            raise CommandError(f"{where}: {name} is missing; every manifest names its apiVersion and kind")
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        raise CommandError(f"{where}: metadata.name is missing; give a name or a generateName")
    yield document


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


class Catalogue:
    """The resource type of each apiVersion and kind, read from the server once for each group version."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[str, dict[str, ResourceType]] = {}

    async def type_of(self, manifest: Manifest) -> ResourceType:
        """Return the resource type of an object."""
        api_version, kind = manifest["apiVersion"], manifest["kind"]
        if kind not in self._known.get(api_version, {}):
            self._known[api_version] = await self._load(api_version)
        try:
            return self._known[api_version][kind]
        except KeyError:
            raise CommandError(f"no kind {kind} in {api_version} on this server; see `kubectl api-resources`") from None

    async def _load(self, api_version: str) -> dict[str, ResourceType]:
        group, _, version = api_version.rpartition("/")
        try:
            answer = await self._client.request("GET", f"/apis/{api_version}" if group else f"/api/{version}")
        except NotFound:
            return {}
        return {
            resource["kind"]: ResourceType(group, version, resource["name"], resource["kind"], resource["namespaced"])
            for resource in orjson.loads(answer)["resources"]
            if "/" not in resource["name"]
        }
