"""Everything that an API server holds, by kind, namespace and name: what an installation has added, and what it leaves behind."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.support.reading import DISCOVERY, Reader, ReadError

NAMES_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
OURS = ".volcano.sh"
OF_KINDS = {"customresourcedefinitions.apiextensions.k8s.io", "apiservices.apiregistration.k8s.io"}
"""What says that a kind is there, and is served."""
KEPT = {"vcjob-viewer-role", "vcjob-editor-role"}
"""ClusterRoles to which users are bound, which outlive a release."""
PASSED_OVER = {"events", "componentstatuses", "endpoints"}
"""Resources that go by themselves, or show others once more."""


@dataclass(frozen=True, slots=True, order=True)
class Thing:
    """One object; `kind` is resource and group, as `leases.coordination.k8s.io`."""

    kind: str
    namespace: str
    name: str


def everything(kubeconfig: Path) -> frozenset[Thing]:
    """All objects of all kinds, without Events."""
    found: set[Thing] = set()
    with contextlib.closing(Reader(kubeconfig)) as reader:
        for root in ("/api", "/apis"):
            for path, kind in _listable(reader.read(root, accept=DISCOVERY)["items"]):
                try:
                    listed = reader.read(f"{root}/{path}", accept=NAMES_ONLY)
                except ReadError as error:
                    if "(NotFound)" in str(error):
                        continue  # a definition that is on its way out
                    raise
                for item in listed["items"] or ():
                    metadata = item["metadata"]
                    found.add(Thing(kind, metadata.get("namespace", ""), metadata["name"]))
    return frozenset(found)


def left_behind(before: Iterable[Thing], after: Iterable[Thing]) -> list[Thing]:
    """What there is more than before, without our kinds, their objects and the roles of users, which outlive a release."""
    more = sorted(each for each in set(after) - set(before) if each.name not in KEPT)
    return [each for each in more if not each.kind.endswith(OURS) and not (each.kind in OF_KINDS and each.name.endswith(OURS))]


def _listable(groups: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Path below the root, and kind, of each resource in its first version."""
    found = []
    for group in groups:
        name = group["metadata"].get("name", "")
        seen: set[str] = set()
        for version in group["versions"]:
            for resource in version.get("resources", ()):
                plural = resource["resource"]
                if "list" in resource["verbs"] and plural not in seen and plural not in PASSED_OVER:
                    seen.add(plural)
                    path = "/".join(part for part in (name, version["version"], plural) if part)
                    found.append((path, f"{plural}.{name}" if name else plural))
    return found
