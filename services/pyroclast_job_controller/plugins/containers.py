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


def with_init_container(pod: Manifest, container: Manifest) -> Manifest:
    """Return `pod` with a further init container at the end, unless it already has one of that name."""
    present = pod["spec"].get("initContainers") or ()
    if any(other.get("name") == container["name"] for other in present):
        return pod
    return {**pod, "spec": extended(pod["spec"], "initContainers", [container])}


def annotated(pod: Manifest, key: str, value: str) -> Manifest:
    """Return `pod` with an annotation."""
    meta = pod["metadata"]
    return {**pod, "metadata": {**meta, "annotations": {**(meta.get("annotations") or {}), key: value}}}
