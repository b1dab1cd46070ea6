"""The default objects of a cluster: namespaces, priority classes, and the roles of all users and of administrators.

These objects are written directly to the store, as no request is authorized before they exist. Missing ones are created again at
every start.
"""

from __future__ import annotations

from importlib import resources

import yaml

from pyroclast_standalone.apiserver.storage import objectmeta
from pyroclast_standalone.apiserver.storage.registry import Registry
from pyroclast_standalone.apiserver.storage.store import Store


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
