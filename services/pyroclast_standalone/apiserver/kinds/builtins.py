"""The built-in resources that are served: names, scope, verbs and subresources, in the groups' order of preference.

The table is `data/builtins.yaml`. The rules of the kinds are in `kinds`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Final

import yaml

ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_CREATE: Final = ("create",)
_SINGLY: Final = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")
_READ_WRITE: Final = ("get", "patch", "update")


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource in discovery. `group` and `version` are empty if they equal those of the resource."""

    name: str
    kind: str
    verbs: tuple[str, ...] = _READ_WRITE
    group: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Builtin:
    """A built-in resource. `storage` is the name of its collection if that is not `plural.group`."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    storage: str = ""
    created_by_put: bool = False

    @property
    def singular(self) -> str:
        """The singular name that kubectl accepts."""
        return self.kind.lower()


_SCALE: Final = Subresource("scale", "Scale", group="autoscaling", version="v1")


def _of(group: str, entries: Iterable[Mapping[str, str]]) -> list[Builtin]:
    """Parse entries of the table: `plural[/short,short]` as key, and the kind with further words as value."""
    group_name, _, version = group.rpartition("/")
    found = []
    for names, text in (pair for entry in entries for pair in entry.items()):
        plural, _, short = names.partition("/")
        kind, *words = text.split()
        subresources = []
        for word in words:
            if word == "status":
                subresources.append(Subresource("status", kind))
            elif word == "scale":
                subresources.append(_SCALE)
            elif word in _SUBRESOURCES:
                subresources.append(_SUBRESOURCES[word])
        found.append(
            Builtin(
                group_name,
                version,
                plural,
                kind,
                namespaced="cluster" not in words,
                short_names=tuple(short.split(",")) if short else (),
                categories=("all",) if "all" in words else ("api-extensions",) if "api-extensions" in words else (),
                verbs=_CREATE if "create" in words else _SINGLY if plural == "namespaces" else ALL_VERBS,
                subresources=tuple(sorted(subresources, key=lambda each: each.name)),
                storage="events" if plural == "events" else "",
                created_by_put="put" in words,
            )
        )
    return found


_SUBRESOURCES: Final = {
    "approval": Subresource("approval", "CertificateSigningRequest"),
    "attach": Subresource("attach", "PodAttachOptions", ("create", "get")),
    "binding": Subresource("binding", "Binding", _CREATE),
    "ephemeralcontainers": Subresource("ephemeralcontainers", "Pod"),
    "eviction": Subresource("eviction", "Eviction", _CREATE, "policy", "v1"),
    "exec": Subresource("exec", "PodExecOptions", ("create", "get")),
    "finalize": Subresource("finalize", "Namespace", ("update",)),
    "log": Subresource("log", "Pod", ("get",)),
    "portforward": Subresource("portforward", "PodPortForwardOptions", ("create", "get")),
    "resize": Subresource("resize", "Pod"),
    "token": Subresource("token", "TokenRequest", _CREATE, "authentication.k8s.io", "v1"),
}

_TABLE: Final = yaml.load(resources.files(__package__).joinpath("data", "builtins.yaml").read_text(), Loader=yaml.CSafeLoader)
BUILTINS: Final[tuple[Builtin, ...]] = tuple(each for group, entries in _TABLE.items() for each in _of(group, entries))
