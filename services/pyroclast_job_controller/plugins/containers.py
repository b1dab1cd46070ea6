"""Changes of pods as plugins make them: each gives a new manifest and leaves the one that it was given as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pyroclast.lifecycle.jobplugins import Manifest

__all__ = [
    "annotated",
    "change_containers",
    "extended",
    "variable",
    "with_init_container",
    "with_port",
    "with_variables",
    "with_volume",
]


def change_containers(pod: Manifest, change: Callable[[Manifest], Manifest], *, init: bool = True) -> Manifest:
    """`pod` with `change` made to all its containers, and with `init` to its init containers too."""
    spec = dict(pod["spec"])
    for name in ("initContainers", "containers") if init else ("containers",):
        if spec.get(name):
            spec[name] = [change(container) for container in spec[name]]
    return {**pod, "spec": spec}


def extended(holder: Manifest, name: str, items: Iterable[Manifest]) -> Manifest:
    """`holder` with `items` at the end of its list `name`; no list is made for none."""
    more = [*(holder.get(name) or ()), *items]
    return {**holder, name: more} if more else holder


def variable(name: str, value: str) -> Manifest:
    """An environment variable."""
    return {"name": name, "value": value}


def with_variables(pod: Manifest, variables: Iterable[Manifest], *, init: bool = True) -> Manifest:
    """`pod` with environment variables after those that its containers have."""
    env = list(variables)
    return change_containers(pod, lambda container: extended(container, "env", env), init=init)


def with_port(container: Manifest, name: str, number: int) -> Manifest:
    """`container` with a port, unless it names one of that number already."""
    if any(port.get("containerPort") == number for port in container.get("ports") or ()):
        return container
    return extended(container, "ports", [{"name": name, "containerPort": number}])


def with_volume(pod: Manifest, volume: Manifest, mount: Manifest) -> Manifest:
    """`pod` with a volume, mounted in all containers as `mount` says."""
    spec = extended(pod["spec"], "volumes", [volume])
    mounts = [{**mount, "name": volume["name"]}]
    return change_containers({**pod, "spec": spec}, lambda container: extended(container, "volumeMounts", mounts))


def with_init_container(pod: Manifest, container: Manifest) -> Manifest:
    """`pod` with one more init container, the last; unless it has one of that name already."""
    present = pod["spec"].get("initContainers") or ()
    if any(other.get("name") == container["name"] for other in present):
        return pod
    return {**pod, "spec": extended(pod["spec"], "initContainers", [container])}


def annotated(pod: Manifest, key: str, value: str) -> Manifest:
    """`pod` with an annotation."""
    meta = pod["metadata"]
    return {**pod, "metadata": {**meta, "annotations": {**(meta.get("annotations") or {}), key: value}}}
