"""The scale subresource: the replicas of any kind in one form. A Scale has no `managedFields`, and apply is refused."""

from __future__ import annotations

from typing import Any, Final

from pyroclast.rules.errors import invalid
from pyroclast_standalone import times
from pyroclast_standalone.apiserver.kinds.builtin import BuiltinStrategy
from pyroclast_standalone.apiserver.kinds.builtins import Builtin
from pyroclast_standalone.apiserver.kinds.rules import Rules
from pyroclast_standalone.apiserver.requests import bodies, status
from pyroclast_standalone.apiserver.requests.context import Answer, Context
from pyroclast_standalone.apiserver.requests.present import found, json_answer
from pyroclast_standalone.apiserver.storage.registry import Resource
from pyroclast_standalone.apiserver.verbs import patching
from pyroclast_standalone.apiserver.verbs.write import Change, Writer, check_place, check_uid

_UNSET: Final = -(2**31)  # marks replicas that a custom resource does not set
_NO_KIND: Final = 'no kind is registered for the type v1.Scale in scheme "pkg/runtime/scheme.go:111"'
_STRATEGY: Final = BuiltinStrategy(Builtin("autoscaling", "v1", "scales", "Scale"), Rules())


class Scales:
    """Reads and writes Scale objects of other objects."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._scales = Resource(_STRATEGY, writer.store.collection("scales.autoscaling"))

    async def answer(self, context: Context, resource: Resource, method: str) -> Answer:
        """Handle GET, PUT or PATCH of a scale."""
        if method not in {"GET", "PUT", "PATCH"}:
            raise status.method_not_allowed()
        if method == "GET":
            body = found(context, resource).load()
            path = _paths(resource)[0]
            if resource.is_custom and _at(body, path) is None:
                raise status.internal(f'the spec replicas field "{path}" does not exist')
            return json_answer(self._of(resource, body))
        if method == "PUT":
            context.check_options()
            document = _decoded(context, resource)
            check_place(context, self._scales, document["metadata"])
            change: Change = lambda _: document  # noqa: E731 - the same each time
        else:
            patching.check_kind(context, resource)
            if context.content_type == patching.APPLY:
                raise status.unsupported_media_type((patching.JSON_PATCH, patching.MERGE))
            patching.check_options(context)
            found(context, resource)
            change = patching.patcher(context, self._scales, times.rfc3339(self._writer.now()), "scale")

        _, shown = await self._writer.change(
            context,
            resource,
            resource.key(context.info.namespace, context.info.name),
            lambda live: self._scaled(context, resource, live or {}, change),
            subresource="scale",
            show=lambda body: self._of(resource, body),
        )
        return json_answer(self._of(resource, shown if isinstance(shown, dict) else shown.load()))

    def _scaled(self, context: Context, resource: Resource, live: dict[str, Any], change: Change) -> dict[str, Any]:
        """Return the object `live` after `change` was applied to its Scale."""
        path = _paths(resource)[0]
        scale = self._of(resource, live)
        if resource.is_custom and _at(live, path) is None:
            scale["spec"]["replicas"] = _UNSET
        new = change(scale)
        check_place(context, self._scales, new["metadata"])
        replicas = new["spec"].get("replicas", 0)
        check_uid(context, resource, new["metadata"], live["metadata"])
        _check(context, resource, replicas)
        metadata = dict(live["metadata"])
        if version := new["metadata"].get("resourceVersion"):
            metadata["resourceVersion"] = version
        return {**_with(live, path, replicas), "metadata": metadata}

    def _of(self, resource: Resource, body: dict[str, Any]) -> dict[str, Any]:
        """Return the Scale of an object."""
        metadata = body["metadata"]
        spec_path, status_path, selector_path = _paths(resource)
        kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        replicas = _at(body, spec_path)
        state: dict[str, Any] = {"replicas": _at(body, status_path) or 0}
        selector = _at(body, selector_path) if selector_path else None
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


def _paths(resource: Resource) -> tuple[str, str, str]:
    """Return the paths of the desired replicas, the present replicas, and the selector."""
    declared = getattr(resource.strategy, "scale", None)
    if declared:
        return declared["specReplicasPath"], declared["statusReplicasPath"], declared.get("labelSelectorPath", "")
    return ".spec.replicas", ".status.replicas", ".spec.selector"


def _at(body: dict[str, Any], path: str) -> Any:  # noqa: ANN401 - any JSON
    """Return the value at `path`. None when it is missing."""
    value: Any = body
    for step in path.strip(".").split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _with(body: dict[str, Any], path: str, replicas: int) -> dict[str, Any]:
    """Return a copy of `body` with `replicas` at `path`. Only the objects on the path are copied."""
    first, *rest = path.strip(".").split(".")
    if not rest:
        return {**body, first: replicas}
    return {**body, first: _with(body.get(first) or {}, ".".join(rest), replicas)}


def _decoded(context: Context, resource: Resource) -> dict[str, Any]:
    """Decode the Scale in the body. For a custom resource, the error message has no details, as in kube-apiserver."""
    try:
        return bodies.decode(context, _STRATEGY)
    except status.StatusError as error:
        if resource.is_custom and error.code == 400:
            raise status.bad_request(_NO_KIND) from None
        raise


def _check(context: Context, resource: Resource, replicas: int) -> None:
    """Check the requested scale."""
    if resource.is_custom:
        if replicas == _UNSET:
            raise status.bad_request(f'the spec replicas field "{_paths(resource)[0]}" cannot be empty')
    elif replicas < 0:
        fault = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise status.invalid("autoscaling", "Scale", context.info.name, [fault])
