"""Which resources are served: the built-in ones and those of custom resource definitions, found by group, version and plural.

Separate from the store because a resource is a view: two versions, or the two event groups, share one collection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .builtins import BUILTINS, Subresource
from .store import Collection, Store
from .strategy import Strategy

__all__ = ["Registry", "Resource", "View"]

View: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""Turns an object of one version into another, in place or anew."""


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """One served resource of one version.

    `from_stored` and `to_stored` are None where the served form is the stored one, which then goes out as it is.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    collection: Collection
    strategy: Strategy
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    is_custom: bool = False
    from_stored: View | None = None
    to_stored: View | None = None
    stored_field: Mapping[str, str] = field(default_factory=dict)  # selectable field of this version → stored one
    warning: str = ""  # sent with every answer, for deprecated versions
    table: Any = None  # columns of custom resources, as the table printer reads them

    @property
    def api_version(self) -> str:
        """What stands in `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """`plural.group`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def stores(self) -> bool:
        """Whether objects of it are kept, in contrast to reviews, which are only answered."""
        return "get" in self.verbs


class Registry:
    """All served resources. `listeners` are told whenever they change."""

    def __init__(self, store: Store, strategy_of: Callable[[str, str, str], Strategy]) -> None:
        self.generation = 0
        self._resources: dict[tuple[str, str, str], Resource] = {}
        self._versions: dict[str, list[str]] = {}
        self._custom_versions: dict[str, list[str]] = {}
        for builtin in BUILTINS:
            name = builtin.storage or (f"{builtin.plural}.{builtin.group}" if builtin.group else builtin.plural)
            strategy = strategy_of(builtin.group, builtin.version, builtin.kind)
            collection = store.collection(name)
            collection.fields_of = strategy.fields
            resource = Resource(
                builtin.group,
                builtin.version,
                builtin.plural,
                builtin.kind,
                builtin.namespaced,
                collection,
                strategy,
                singular=builtin.singular,
                list_kind=builtin.kind + "List",
                short_names=builtin.short_names,
                categories=builtin.categories,
                verbs=builtin.verbs,
                subresources={each.name: each for each in builtin.subresources},
            )
            self.add(resource)

    def add(self, resource: Resource) -> None:
        """Serve a built-in resource."""
        versions = self._versions.setdefault(resource.group, [])
        if resource.version not in versions:
            versions.append(resource.version)
        self._resources[resource.group, resource.version, resource.plural] = resource

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource of that path, None when it is not served."""
        return self._resources.get((group, version, plural))

    def of_kind(self, group: str, version: str, kind: str) -> Resource | None:
        """The resource whose objects have that kind."""
        for resource in self._resources.values():
            if (resource.group, resource.version, resource.kind) == (group, version, kind):
                return resource
        return None

    def is_builtin_version(self, group: str, version: str) -> bool:
        """Whether the group-version is built in."""
        return version in self._versions.get(group, ())

    def groups(self) -> dict[str, list[str]]:
        """Versions by group in the order of preference, built-in groups first."""
        return {**self._versions, **{group: self._custom_versions[group] for group in sorted(self._custom_versions)}}

    def resources(self, group: str | None = None, version: str | None = None) -> list[Resource]:
        """Resources of a group and version, or of all, sorted by plural."""
        found = [
            resource
            for resource in self._resources.values()
            if (group is None or resource.group == group) and (version is None or resource.version == version)
        ]
        found.sort(key=lambda resource: resource.plural)
        return found

    def serve_custom(self, group: str, plural: str, resources: Iterable[Resource]) -> None:
        """Serve exactly `resources` as the versions of a custom resource; none to stop serving it."""
        for key in [key for key, each in self._resources.items() if each.is_custom and (key[0], key[2]) == (group, plural)]:
            del self._resources[key]
        for resource in resources:
            self._resources[resource.group, resource.version, resource.plural] = resource
        versions = {each.version for each in self._resources.values() if each.is_custom and each.group == group}
        if versions:
            self._custom_versions[group] = sorted(versions, key=_version_order)
        else:
            self._custom_versions.pop(group, None)
        self.generation += 1


def _version_order(version: str) -> tuple[int, int, int, str]:
    """Sort key: GA before beta before alpha, newer first, anything else last by name."""
    stable = version.removeprefix("v")
    for rank, word in enumerate(("beta", "alpha"), 1):
        major, found, minor = stable.partition(word)
        if found and major.isdigit() and minor.isdigit():
            return rank, -int(major), -int(minor), ""
    return (0, -int(stable), 0, "") if stable.isdigit() and stable != version else (3, 0, 0, version)
