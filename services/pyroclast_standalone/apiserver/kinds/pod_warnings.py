"""What is legal in a pod's spec and surely not meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

__all__ = ["warn_of_pod", "warn_of_template", "warning_of"]

_LONGEST_LABEL: Final = 63


def warn_of_pod(pod: Mapping[str, Any], old: Mapping[str, Any] | None) -> list[str]:
    """Warnings about a new pod."""
    return [*_name(pod["metadata"]["name"]), *_spec(pod["spec"], "spec")] if old is None else []


def warn_of_template(template: Mapping[str, Any], path: str) -> list[str]:
    """Warnings about the template of pods at `path`."""
    return list(_spec(template.get("spec") or {}, f"{path}.spec"))


def warning_of(*path: str) -> Callable[[Mapping[str, Any], Mapping[str, Any] | None], list[str]]:
    """Warnings about the template at `path` of an object that is new or has a new generation."""

    def warn(document: Mapping[str, Any], old: Mapping[str, Any] | None) -> list[str]:
        if old is not None and document["metadata"].get("generation") == old["metadata"].get("generation"):
            return []
        template: Any = document
        for step in path:
            template = (template or {}).get(step)
        return warn_of_template(template or {}, ".".join(path))

    return warn


def _name(name: str) -> Iterator[str]:
    """A pod's name is its host name too, which may be less than a pod's name may be."""
    faults = [f"must be no more than {_LONGEST_LABEL} bytes"] if len(name) > _LONGEST_LABEL else []
    faults += ["must not contain dots"] if "." in name else []
    if faults:
        yield (
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "
            f"a DNS label is recommended: [{' '.join(faults)}]"
        )


def _spec(spec: Mapping[str, Any], path: str) -> Iterator[str]:
    ports: list[tuple[str, Mapping[str, Any]]] = []
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(kind) or ()):
            at = f"{path}.{kind}[{index}]"
            yield from _variables(container.get("env") or (), f"{at}.env")
            ports += [(f"{at}.ports[{number}]", port) for number, port in enumerate(container.get("ports") or ())]
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        yield f"{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
    yield from _ports(ports)


def _variables(variables: Sequence[Mapping[str, Any]], path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, variable in enumerate(variables):
        name = variable.get("name", "")
        if name in seen and f"$({name})" not in (variable.get("value") or ""):
            yield f'{path}[{index}]: hides previous definition of "{name}", which may be dropped when using apply'
        seen.add(name)


def _ports(ports: list[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    """Ports, each with where it stands, that a service cannot tell apart."""
    numbers: dict[tuple[Any, Any], list[tuple[str, Mapping[str, Any]]]] = {}
    names: dict[str, str] = {}
    for path, port in ports:
        others = numbers.setdefault((port.get("containerPort"), port.get("protocol")), [])
        for first, other in others:
            if _host(port) == _host(other):
                yield f"{path}: duplicate port definition with {first}"
            elif not port.get("hostPort") or not other.get("hostPort"):
                yield f"{path}: overlapping port definition with {first}"
        others.append((path, port))
    for path, port in ports:
        name = port.get("name")
        if name and name in names:
            first = names[name]
            used = f"services and probes that select ports by name will use {first}"
            yield f'{path}: duplicate port name "{name}" with {first}, {used}'
        elif name:
            names[name] = path


def _host(port: Mapping[str, Any]) -> tuple[Any, Any]:
    return port.get("hostIP") or "", port.get("hostPort") or 0
