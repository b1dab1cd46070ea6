"""Changes of pods by plugins. Each function returns a new manifest and does not modify its argument."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pyroclast.lifecycle.jobplugins import Manifest


def change_containers(pod: Manifest, change: Callable[[Manifest], Manifest], *, init: bool = True) -> Manifest:
    """Return `pod` with `change` applied to all its containers, with `init` also to its init containers."""
    spec = dict(pod["spec"])
    for name in ("initContainers", "containers") if init else ("containers",):
        if spec.get(name):
            spec[name] = [change(container) for container in spec[name]]
    return {**pod, "spec": spec}


def extended(holder: Manifest, name: str, items: Iterable[Manifest]) -> Manifest:
    """Return `holder` with `items` appended to its list `name`. Without items, no list is created."""
    more = [*(holder.get(name) or ()), *items]
    return {**holder, name: more} if more else holder


def variable(name: str, value: str) -> Manifest:
    """Return an environment variable."""
    return {"name": name, "value": value}


def with_variables(pod: Manifest, variables: Iterable[Manifest], *, init: bool = True) -> Manifest:
    """Return `pod` with environment variables appended to those of its containers."""
    env = list(variables)
    return change_containers(pod, lambda container: extended(container, "env", env), init=init)


def with_port(container: Manifest, name: str, number: int) -> Manifest:
    """Return `container` with a port added, unless it already has a port with that number."""
    if any(port.get("containerPort") == number for port in container.get("ports") or ()):
        return container
    return extended(container, "ports", [{"name": name, "containerPort": number}])


def with_volume(pod: Manifest, volume: Manifest, mount: Manifest) -> Manifest:
    """Return `pod` with a volume that is mounted in all containers as described by `mount`."""
    spec = extended(pod["spec"], "volumes", [volume])
    mounts = [{**mount, "name": volume["name"]}]
    return change_containers({**pod, "spec": spec}, lambda container: extended(container, "volumeMounts", mounts))


def with_wait(pod: Manifest, name: str, image: str, script: str) -> Manifest:
    """Return `pod` with an init container at the end that runs a shell script, unless it already has one of that name.

    `image`: empty for the image of the pod's first container, which the pod can pull wherever it comes from.
    """
    spec = pod["spec"]
    if any(other.get("name") == name for other in spec.get("initContainers") or ()):
        return pod
    own: Manifest = next(iter(spec.get("containers") or ()), {})
    container = {"name": name, "image": image or own.get("image", ""), "command": ["sh", "-c", script]}
    if not image and own.get("imagePullPolicy"):
        container["imagePullPolicy"] = own["imagePullPolicy"]
    return {**pod, "spec": extended(spec, "initContainers", [container])}


def annotated(pod: Manifest, key: str, value: str) -> Manifest:
    """Return `pod` with an annotation."""
    meta = pod["metadata"]
    return {**pod, "metadata": {**meta, "annotations": {**(meta.get("annotations") or {}), key: value}}}
