"""The served resources: built-in ones and custom resources, by group, version and plural.

The registry is separate from the store because a resource is a view: two versions, or the two event groups, share one collection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import resources
from typing import Any, TypeAlias

import orjson
import yaml

from pyroclast_standalone.apiserver.documents.selectors import FieldReaders
from pyroclast_standalone.apiserver.kinds.builtins import Subresource
from pyroclast_standalone.apiserver.kinds.strategy import Strategy
from pyroclast_standalone.apiserver.storage import objectmeta
from pyroclast_standalone.apiserver.storage.store import Collection, Store

View: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""A function that converts an object of one version to another, and may modify its argument."""


class Resource:
    """One served resource of one version: a strategy and a collection.

    `from_stored` and `to_stored` are None if the served form equals the stored form, which is then sent unchanged. `warning` is
    sent with every answer, for deprecated versions and kinds.
    """

    def __init__(
        self,
        strategy: Strategy,
        collection: Collection,
        *,
        from_stored: View | None = None,
        to_stored: View | None = None,
        warning: str = "",
    ) -> None:
        self.strategy, self.collection = strategy, collection
        self.from_stored, self.to_stored, self.warning = from_stored, to_stored, warning or strategy.deprecation
        self.group, self.version, self.plural, self.kind = strategy.group, strategy.version, strategy.plural, strategy.kind
        self.namespaced, self.api_version = strategy.namespaced, strategy.api_version
        self.qualified = f"{strategy.plural}.{strategy.group}" if strategy.group else strategy.plural

    def seen_as(self, body: dict[str, Any], other: Resource) -> dict[str, Any]:
        """Return `body`, an object of this resource, as `other` serves it: a copy if `other` is another resource."""
        if other is self:
            return body
        copy: dict[str, Any] = orjson.loads(orjson.dumps(body))
        if self.to_stored is not None:
            copy = self.to_stored(copy)
        return other.from_stored(copy) if other.from_stored is not None else copy

    @property
    def is_custom(self) -> bool:
        """Whether a CustomResourceDefinition defines the resource."""
        return self.strategy.is_custom

    @property
    def collection_group(self) -> str:
        """The group of the stored kind, which error messages contain."""
        return self.group if self.is_custom else self.collection.name.partition(".")[2]

    @property
    def stores(self) -> bool:
        """Whether objects of the resource are stored. Reviews are only answered."""
        return "get" in self.strategy.verbs

    def key(self, namespace: str, name: str) -> str:
        """Return the key of an object in the collection."""
        return f"{namespace}/{name}" if self.namespaced else name

    def subresource(self, name: str) -> Subresource | None:
        """Return the subresource of that name. None when it does not exist."""
        return next((each for each in self.strategy.subresources if each.name == name), None)


class Registry:
    """All served resources. `generation` increases whenever they change."""

    def __init__(self, store: Store, strategies: Iterable[Strategy], views: Mapping[str, tuple[View, View]]) -> None:
        """Serve `strategies`. `views`: conversions for versions whose objects are stored in another version."""
        self.generation = 0
        self._resources: dict[tuple[str, str, str], Resource] = {}
        self._by_collection: dict[str, Resource] = {}
        self._by_kind: dict[tuple[str, str, str], Resource] = {}
        self._versions: dict[str, list[str]] = {}
        self._custom_versions: dict[str, list[str]] = {}
        for strategy in strategies:
            conversions = views.get(f"{strategy.api_version}/{strategy.plural}")
            shared = conversions is not None
            name = strategy.plural if shared or not strategy.group else f"{strategy.plural}.{strategy.group}"
            collection = store.collection(name)
            if conversions is None:
                collection.fields_of = reader_of(strategy.fields)
                resource = Resource(strategy, collection)
            else:
                resource = Resource(strategy, collection, from_stored=conversions[0], to_stored=conversions[1])
            versions = self._versions.setdefault(strategy.group, [])
            if strategy.version not in versions:
                versions.append(strategy.version)
            self._put(resource)

    def _put(self, resource: Resource) -> None:
        if resource.stores and (resource.from_stored is None or resource.collection.name not in self._by_collection):
            self._by_collection[resource.collection.name] = resource
        self._resources[resource.group, resource.version, resource.plural] = resource
        if resource.stores or resource.kind not in {"Binding", "Eviction"}:
            self._by_kind[resource.group, resource.version, resource.kind] = resource

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """Return the resource that is served at that path. None when no resource is."""
        return self._resources.get((group, version, plural))

    def require(self, group: str, version: str, plural: str) -> Resource:
        """Return the resource that is served at that path. The caller knows that it exists."""
        return self._resources[group, version, plural]

    def over(self, collection: str) -> Resource | None:
        """Return the resource whose served form is stored in `collection`. None when no version of it is served."""
        return self._by_collection.get(collection)

    def of_kind(self, group: str, version: str, kind: str) -> Resource | None:
        """Return the resource of that kind. None when it is not served."""
        return self._by_kind.get((group, version, kind))

    def is_builtin_group(self, group: str) -> bool:
        """Return whether the group is built in."""
        return group in self._versions

    def groups(self) -> dict[str, list[str]]:
        """Return the versions of each group in the order of preference, built-in groups first."""
        return {**self._versions, **{group: self._custom_versions[group] for group in sorted(self._custom_versions)}}

    def resources(self, group: str | None = None, version: str | None = None) -> list[Resource]:
        """Return the resources of a group and version, or all, sorted by plural."""
        found = [
            resource
            for resource in self._resources.values()
            if (group is None or resource.group == group) and (version is None or resource.version == version)
        ]
        found.sort(key=lambda resource: resource.plural)
        return found

    def serve_custom(self, group: str, plural: str, resources: Iterable[Resource]) -> None:
        """Serve exactly `resources` as the versions of a custom resource. An empty list ends the service of it."""
        for key in [key for key, each in self._resources.items() if each.is_custom and (key[0], key[2]) == (group, plural)]:
            gone = self._resources.pop(key)
            self._by_collection.pop(gone.collection.name, None)
            self._by_kind.pop((gone.group, gone.version, gone.kind), None)
        for resource in resources:
            self._put(resource)
        versions = {each.version for each in self._resources.values() if each.is_custom and each.group == group}
        if versions:
            self._custom_versions[group] = sorted(versions, key=version_order)
        else:
            self._custom_versions.pop(group, None)
        self.generation += 1


def reader_of(fields: FieldReaders | None) -> Callable[[dict[str, Any]], Mapping[str, str]]:
    """Return a function that reads all selectable fields of an object."""
    if not fields:
        return lambda _: {}
    readers = tuple(fields.items())
    return lambda body: {name: read(body) for name, read in readers}


def version_order(version: str) -> tuple[int, int, int, str]:
    """Return the sort key of a version: GA before beta before alpha, newer first, other names last."""
    stable = version.removeprefix("v")
    for rank, word in enumerate(("beta", "alpha"), 1):
        major, found, minor = stable.partition(word)
        if found and major.isdigit() and minor.isdigit():
            return rank, -int(major), -int(minor), ""
    return (0, -int(stable), 0, "") if stable.isdigit() and stable != version else (3, 0, 0, version)


def ensure_objects(store: Store, registry: Registry, now: float) -> None:
    """Create the missing default objects."""
    text = resources.files(__package__).joinpath("data", "bootstrap.yaml").read_text()
    for body in yaml.load(text, Loader=yaml.CSafeLoader):
        group, kind = body.pop("apiVersion").rpartition("/")[0], body.pop("kind")
        resource = registry.of_kind(group, "v1", kind)
        if resource is None:
            raise LookupError(f"{kind} is not served")
        key = body["metadata"]["name"]
        if key not in resource.collection.items:
            objectmeta.complete(body["metadata"], now)
            store.put(resource.collection, key, objectmeta.ordered(body, resource.kind, resource.api_version))
