"""What is legal in a pod's spec and surely not meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from pyroclast_standalone.apiserver.documents import names

from .addresses import warn_of_address
from .checks import check_fields
from .pod_annotations import profiles_in
from .security import containers_of_pod
from .volume_warnings import warn_of_fractions, warn_of_volumes

__all__ = ["warn_of_pod", "warn_of_template", "warning_of"]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_MATCHES_NONE: Final = "a null labelSelector results in matching no pod"
_BAD_NAME: Final = (
    "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended"
)
_BAD_HOST_NAME: Final = (
    "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended"
)
_BYTES: Final = ("memory", "ephemeral-storage")
_SECCOMP: Final = "container.seccomp.security.alpha.kubernetes.io/"
_SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
_NO_SECCOMP: Final = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_OLD_ANNOTATIONS: Final = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_OLD_LABELS: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}


def warn_of_pod(pod: Mapping[str, Any], old: Mapping[str, Any] | None) -> list[str]:
    """Warnings about a new pod."""
    if old is not None:
        return []
    return [*_name(pod["metadata"]["name"]), *_spec(pod["spec"], pod["metadata"], "spec")]


def warn_of_template(template: Mapping[str, Any], path: str) -> list[str]:
    """Warnings about the template of pods at `path`."""
    return _spec(template.get("spec") or {}, template.get("metadata") or {}, f"{path}.spec")


def warning_of(*path: str, names_pods: bool = False) -> Callable[[Mapping[str, Any], Mapping[str, Any] | None], list[str]]:
    """Warnings about the template at `path` of an object that is new or has a new generation.

    With `names_pods` also about a name that pods, which are named after the object, cannot have for their hosts.
    """

    def warn(document: Mapping[str, Any], old: Mapping[str, Any] | None) -> list[str]:
        if old is not None and document["metadata"].get("generation") == old["metadata"].get("generation"):
            return []
        template: Any = document
        for step in path:
            template = (template or {}).get(step)
        faults = names.dns_label(document["metadata"].get("name") or "") if names_pods and old is None else []
        told = [f"{_BAD_NAME}: [{' '.join(faults)}]"] if faults else []
        return [*told, *warn_of_template(template or {}, ".".join(path))]

    return warn


def _name(name: str) -> list[str]:
    """A pod's name is its host name too, which may be less than a pod's name may be."""
    faults = names.dns_label(name)
    return [f"{_BAD_HOST_NAME}: [{' '.join(faults)}]"] if faults else []


def _selector(selector: Mapping[str, str], path: str) -> Iterator[str]:
    """Labels of nodes that have new names."""
    for key in selector:
        if key in _OLD_LABELS:
            yield f"{path}[{key}]: {_OLD_LABELS[key]}"


def _node_affinity(affinity: Mapping[str, Any], path: str) -> Iterator[str]:
    node, own = affinity.get("nodeAffinity") or {}, f"{path}.nodeAffinity"
    for index, term in enumerate((node.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()):
        yield from _node_term(term, f"{own}.{_REQUIRED}.nodeSelectorTerms[{index}]")
    for index, weighted in enumerate(node.get(_PREFERRED) or ()):
        yield from _node_term(weighted.get("preference") or {}, f"{own}.{_PREFERRED}[{index}].preference")


def _node_term(term: Mapping[str, Any], path: str) -> Iterator[str]:
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        if (key := expression.get("key", "")) in _OLD_LABELS:
            yield f"{path}.matchExpressions[{index}].key: {key} is {_OLD_LABELS[key]}"


def _spread(constraints: Sequence[Mapping[str, Any]], path: str) -> Iterator[str]:
    for index, constraint in enumerate(constraints):
        at, key = f"{path}[{index}]", constraint.get("topologyKey", "")
        if key in _OLD_LABELS:
            yield f"{at}.topologyKey: {key} is {_OLD_LABELS[key]}"
        if constraint.get("labelSelector") is None:
            yield f"{at}.labelSelector: {_MATCHES_NONE}"


def _annotations(annotations: Mapping[str, str], path: str) -> list[str]:
    if _OLD_ANNOTATIONS.keys().isdisjoint(annotations):
        return []
    return [f"{path}[{key}]: {text}" for key, text in _OLD_ANNOTATIONS.items() if key in annotations]


def _repeated(items: Sequence[Mapping[str, Any]], key: str, path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(items):
        value = item.get(key, "")
        if value in seen:
            yield f'{path}[{index}].{key}: duplicate {key} "{value}"'
        seen.add(value)


def _secrets(secrets: Sequence[Mapping[str, Any]], path: str) -> Iterator[str]:
    yield from _repeated(secrets, "name", path)
    for index, secret in enumerate(secrets):
        if not secret.get("name"):
            yield f'{path}[{index}].name: invalid empty name ""'


def _profiles(spec: Mapping[str, Any], annotations: Mapping[str, str], path: str) -> Iterator[str]:
    if _SECCOMP_POD in annotations and "seccompProfile" not in (spec.get("securityContext") or {}):
        yield f"{path}[{_SECCOMP_POD}]: {_NO_SECCOMP}"
    for _, container in containers_of_pod(spec, ""):
        key = f"{_SECCOMP}{container.get('name', '')}"
        if key in annotations and "seccompProfile" not in (container.get("securityContext") or {}):
            yield f"{path}[{key}]: {_NO_SECCOMP}"


def _pod_affinity(affinity: Mapping[str, Any], path: str) -> Iterator[str]:
    for kind in ("podAffinity", "podAntiAffinity"):
        rules, own = affinity.get(kind) or {}, f"{path}.{kind}"
        for index, term in enumerate(rules.get(_REQUIRED) or ()):
            if term.get("labelSelector") is None:
                yield f"{own}.{_REQUIRED}[{index}].labelSelector: {_MATCHES_NONE}"
        for index, weighted in enumerate(rules.get(_PREFERRED) or ()):
            if (weighted.get("podAffinityTerm") or {}).get("labelSelector") is None:
                yield f"{own}.{_PREFERRED}[{index}].podAffinityTerm.labelSelector: {_MATCHES_NONE}"


def _servers(config: Mapping[str, Any], path: str) -> Iterator[str]:
    for index, server in enumerate(config.get("nameservers") or ()):
        yield from warn_of_address(server, f"{path}.nameservers[{index}]")


def _aliases(aliases: Sequence[Mapping[str, Any]], path: str) -> Iterator[str]:
    for index, alias in enumerate(aliases):
        yield from warn_of_address(alias.get("ip", ""), f"{path}[{index}].ip")


def _overhead(amounts: Mapping[str, str], path: str) -> list[str]:
    return warn_of_fractions(amounts, _BYTES, path)


def _doubles(aliases: Sequence[Mapping[str, Any]], path: str) -> Iterator[str]:
    return _repeated(aliases, "ip", path)


_FIRST: Final = (("nodeSelector", _selector), ("affinity", _node_affinity), ("topologySpreadConstraints", _spread))
_NEXT: Final = (
    ("volumes", warn_of_volumes),
    ("hostAliases", _doubles),
    ("imagePullSecrets", _secrets),
    ("overhead", _overhead),
)
_LAST: Final = (("affinity", _pod_affinity), ("dnsConfig", _servers), ("hostAliases", _aliases))


def _spec(spec: Mapping[str, Any], metadata: Mapping[str, Any], path: str) -> list[str]:
    """Warnings about a spec, whose metadata stand beside it."""
    annotations, notes = metadata.get("annotations"), f"{path.removesuffix('spec')}metadata.annotations"
    told = check_fields(spec, _FIRST, path)
    if annotations:
        told += _annotations(annotations, notes)
    told += check_fields(spec, _NEXT, path)
    if annotations and profiles_in(annotations):
        told += _profiles(spec, annotations, notes)
    ports: list[tuple[str, Mapping[str, Any]]] = []
    for at, container in containers_of_pod(spec, path):
        if resources := container.get("resources"):
            told += _amounts(resources, f"{at}.resources")
        if variables := container.get("env"):
            told += _variables(variables, f"{at}.env")
        if listed := container.get("ports"):
            ports += [(f"{at}.ports[{number}]", port) for number, port in enumerate(listed)]
    if len(ports) > 1:
        told += _ports(ports)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        told.append(f"{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1")
    told += check_fields(spec, _LAST, path)
    return told


def _amounts(resources: Mapping[str, Any], path: str) -> list[str]:
    told: list[str] = []
    for name in _BYTES:
        for kind in ("limits", "requests"):
            amounts = resources.get(kind)
            if amounts and name in amounts:
                told += warn_of_fractions(amounts, (name,), f"{path}.{kind}")
    return told


def _variables(variables: Sequence[Mapping[str, Any]], path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, variable in enumerate(variables):
        name = variable.get("name", "")
        if name in seen:
            own, value = f"$({name})", variable.get("value") or ""
            if "valueFrom" in variable or value == own or own not in value:
                yield f'{path}[{index}]: hides previous definition of "{name}", which may be dropped when using apply'
        seen.add(name)


def _ports(ports: list[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    """Ports, each with where it stands, that a service cannot tell apart."""
    numbers: dict[tuple[Any, Any], list[tuple[str, Mapping[str, Any]]]] = {}
    first_of: dict[str, str] = {}
    for path, port in ports:
        others = numbers.setdefault((port.get("containerPort"), port.get("protocol")), [])
        for first, other in others:
            if _host(port) == _host(other):
                yield f"{path}: duplicate port definition with {first}"
            elif not port.get("hostPort") or not other.get("hostPort"):
                yield f"{path}: overlapping port definition with {first}"
            elif port.get("hostPort") == other.get("hostPort") and bool(port.get("hostIP")) != bool(other.get("hostIP")):
                yield f"{path}: dangerously ambiguous port definition with {first}"
        others.append((path, port))
    for path, port in ports:
        name = port.get("name")
        if name and name in first_of:
            first = first_of[name]
            used = f"services and probes that select ports by name will use {first}"
            yield f'{path}: duplicate port name "{name}" with {first}, {used}'
        elif name:
            first_of[name] = path


def _host(port: Mapping[str, Any]) -> tuple[Any, Any]:
    return port.get("hostIP") or "", port.get("hostPort") or 0
