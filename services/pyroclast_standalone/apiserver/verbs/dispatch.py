"""Dispatches each request to its handler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyroclast_standalone.apiserver.requests import status
from pyroclast_standalone.apiserver.requests.context import Answer, Context, Streamed
from pyroclast_standalone.apiserver.requests.present import object_answer
from pyroclast_standalone.apiserver.storage.registry import Registry, Resource
from pyroclast_standalone.apiserver.storage.store import Store
from pyroclast_standalone.apiserver.verbs.deleting import Deleter
from pyroclast_standalone.apiserver.verbs.listing import Reader
from pyroclast_standalone.apiserver.verbs.subresources import Subresources
from pyroclast_standalone.apiserver.verbs.watching import Watches
from pyroclast_standalone.apiserver.verbs.write import Writer

_PARTS: Final = frozenset({"status", "approval", "ephemeralcontainers", "finalize", "resize"})


class Dispatcher:
    """Answers requests for resources, after authentication and authorization."""

    def __init__(self, store: Store, registry: Registry, writer: Writer, subresources: Subresources) -> None:
        self._store = store
        self._registry = registry
        self._reader = Reader(store)
        self._watches = Watches(store)
        self._writer = writer
        self._deleter = Deleter(writer)
        self._subresources = subresources

    async def answer(self, context: Context, method: str) -> Answer | Streamed:
        """Return the answer to a request for a resource. A write is in the journal before its answer is returned."""
        resource = self._resource(context)
        if resource.warning:
            context.warn(resource.warning)
        info = context.info
        if info.subresource:
            return await self._subresource(context, resource, method)
        if method in {"GET", "HEAD"}:
            if info.verb == "get":
                return await self._reader.get(context, resource)
            if info.verb == "list":
                return await self._reader.list(context, resource)
            return Streamed(self._watches.open(context, resource))
        answer = await self._write(context, resource, method)
        await self._store.durable()
        return answer

    def _resource(self, context: Context) -> Resource:
        """Return the resource of the path, after checking that the path is valid for it."""
        info = context.info
        resource = self._registry.find(info.group, info.version, info.resource)
        if resource is None:
            raise (status.unknown_resource() if self._registry.is_builtin_group(info.group) else status.no_such_path())
        is_object = bool(info.name) and info.verb not in {"list", "watch"}
        if resource.namespaced and not info.namespace and (is_object or info.verb in {"create", "deletecollection"}):
            if resource.is_custom:
                raise status.no_such_path()
            raise status.unknown_resource() if is_object else status.method_not_allowed()
        if not resource.namespaced and info.namespace and info.resource != "namespaces":
            raise status.no_such_path() if resource.is_custom else status.unknown_resource()
        return resource

    async def _write(self, context: Context, resource: Resource, method: str) -> Answer:
        info = context.info
        if method == "POST" and (not info.name or resource.is_custom):
            if "create" not in resource.strategy.verbs:
                raise status.method_not_allowed()
            if not resource.stores:
                return await self._subresources.review(context, resource)
            code, shown = await self._writer.create(context, resource)
        elif method in {"PUT", "PATCH"} and not info.name:
            raise status.bad_request("name must be provided") if resource.is_custom else status.method_not_allowed()
        elif not resource.stores:
            raise status.method_not_allowed()
        elif method == "PUT":
            code, shown = await self._writer.update(context, resource)
        elif method == "PATCH":
            code, shown = await self._writer.patch(context, resource)
        elif method == "DELETE" and info.name:
            return await self._deleter.delete(context, resource)
        elif method == "DELETE" and "deletecollection" in resource.strategy.verbs:
            return await self._deleter.delete_collection(context, resource)
        else:
            raise status.method_not_allowed()
        return object_answer(context, resource, shown, code)

    async def _subresource(self, context: Context, resource: Resource, method: str) -> Answer | Streamed:
        info = context.info
        subresource = resource.subresource(info.subresource)
        if subresource is None:
            if resource.is_custom:
                raise _no_subresource(resource, info.name, info.subresource)
            raise status.unknown_resource()
        if resource.is_custom and method not in {"GET", "HEAD", "PUT", "PATCH"}:
            raise status.method_not_supported(resource.group, resource.plural, info.verb)
        if method in {"GET", "HEAD"} and "get" not in subresource.verbs:
            raise status.method_not_allowed()
        answer: Answer | Streamed
        if info.subresource in _PARTS:
            answer = await self._part(context, resource, method)
        else:
            answer = await self._subresources.answer(context, resource, method)
        await self._store.durable()
        return answer

    async def _part(self, context: Context, resource: Resource, method: str) -> Answer:
        """Handle a subresource that shows the whole object but changes only a part of it. The kind determines that part."""
        name = context.info.subresource
        if method in {"GET", "HEAD"}:
            return await self._reader.get(context, resource)
        if method == "PUT":
            code, shown = await self._writer.update(context, resource, name)
        elif method == "PATCH" and name != "finalize":
            code, shown = await self._writer.patch(context, resource, name)
        else:
            raise status.method_not_allowed()
        return object_answer(context, resource, shown, code)


def _no_subresource(resource: Resource, name: str, subresource: str) -> status.StatusError:
    """Return the 404 error. For a kind whose replicas are fields of list items, the message names these fields."""
    error = status.not_found(resource.group, resource.plural, name)
    source = resource.strategy.schema.source
    spec = (source.get("properties") or {}).get("spec") or {}
    if subresource == "scale" and (found := [path for path in _replicas(spec, "spec") if "[" in path]):
        why = f"kind {resource.kind} has no scale subresource; change {' or '.join(found)} with kubectl edit or kubectl patch"
        error.message = f"{error.message}: {why}"
    return error


def _replicas(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield the paths of the numbers of replicas in a schema."""
    for field, inner in (schema.get("properties") or {}).items():
        if field == "replicas" and inner.get("type") == "integer":
            yield f"{path}.replicas"
        else:
            yield from _replicas(inner, f"{path}.{field}")
    if isinstance(schema.get("items"), Mapping):
        yield from _replicas(schema["items"], f"{path}[*]")
