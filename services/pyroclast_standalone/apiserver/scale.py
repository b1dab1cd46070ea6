"""Scale: replicas of any kind that has them, in one shape."""

from __future__ import annotations

from typing import Any

from . import bodies, patching, status
from . import replicas as replicas_of
from .context import Answer, Context
from .documents import json_patch, merge_patch, strict
from .documents.errors import DocumentError, invalid
from .present import json_answer
from .registry import Resource
from .write import Writer

__all__ = ["Scales"]


class Scales:
    """Reads and writes Scale objects over others."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def answer(self, context: Context, resource: Resource, method: str) -> Answer:
        """GET, PUT or PATCH of a scale."""
        key = f"{context.info.namespace}/{context.info.name}" if resource.namespaced else context.info.name
        if method == "GET":
            stored = resource.collection.items.get(key)
            if stored is None:
                raise status.not_found(resource.group, resource.plural, context.info.name)
            return json_answer(context.wanted, self._of(resource, stored.load()))
        if method not in {"PUT", "PATCH"}:
            raise status.method_not_allowed()
        if method == "PATCH":
            patching.check_options(context)
        else:
            context.check_options()
        content, _ = bodies.parse(context, "Scale") if method == "PUT" else (_patch(context), [])

        def change(body: dict[str, Any] | None) -> dict[str, Any]:
            live = body or {}
            scale = self._of(resource, live)
            wished = content if method == "PUT" else _patched(context, scale, content)
            replicas = (wished.get("spec") or {}).get("replicas", 0)
            if not resource.is_custom and (not isinstance(replicas, int) or replicas < 0):
                fault = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
                raise status.invalid("autoscaling", "Scale", context.info.name, [fault])
            version = (wished.get("metadata") or {}).get("resourceVersion")
            if version and version != live["metadata"]["resourceVersion"]:
                raise status.conflict(
                    resource.group,
                    resource.plural,
                    context.info.name,
                    "the object has been modified; please apply your changes to the latest version and try again",
                )
            return _with(live, replicas_of.paths(resource)[0], replicas)

        _, shown = await self._writer.change(
            context, resource, key, change, subresource="scale", show=lambda body: self._of(resource, body)
        )
        return json_answer(context.wanted, self._of(resource, shown if isinstance(shown, dict) else shown.load()))

    def _of(self, resource: Resource, body: dict[str, Any]) -> dict[str, Any]:
        """The Scale of an object."""
        metadata = body["metadata"]
        spec_path, status_path, selector_path = replicas_of.paths(resource)
        kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        replicas = replicas_of.at(body, spec_path)
        state: dict[str, Any] = {"replicas": replicas_of.at(body, status_path) or 0}
        selector = replicas_of.at(body, selector_path) if selector_path else None
        if isinstance(selector, dict):
            selector = ",".join(f"{name}={value}" for name, value in sorted(selector.get("matchLabels", selector).items()))
        if selector:
            state["selector"] = selector
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {name: metadata[name] for name in kept if name in metadata},
            "spec": {"replicas": replicas} if replicas else {},
            "status": state,
        }


def _with(body: dict[str, Any], path: str, replicas: int) -> dict[str, Any]:
    """A copy of `body` with `replicas` at `path`; only what is on the way is copied."""
    first, *rest = path.strip(".").split(".")
    if not rest:
        return {**body, first: replicas}
    return {**body, first: _with(body.get(first) or {}, ".".join(rest), replicas)}


def _patch(context: Context) -> Any:  # noqa: ANN401 - any JSON
    try:
        value, _ = strict.parse_json(context.body, duplicates=False)
    except DocumentError as error:
        raise status.bad_request(f"error decoding patch: {error.message}") from None
    return value


def _patched(context: Context, scale: dict[str, Any], patch: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    try:
        if context.content_type == "application/json-patch+json":
            result = json_patch.apply(scale, json_patch.check(patch))
        elif context.content_type in {"application/merge-patch+json", "application/strategic-merge-patch+json"}:
            result = merge_patch.merge(scale, patch)
        else:
            raise status.unsupported_media_type(("application/json-patch+json", "application/merge-patch+json"))
    except DocumentError as error:
        raise status.of_document(error) from None
    return result if isinstance(result, dict) else {}
