"""Rules for ports, probes and lifecycle hooks of a container: each probe and hook has one handler."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyroclast.rules.errors import FieldError, duplicate, forbidden, invalid, invalid_for, required, unsupported
from pyroclast.rules.names import port_name
from pyroclast.rules.podspecs.options import Options, check_choice
from pyroclast.rules.values import Json, integer, mapping, mappings, text

PROTOCOLS = ("SCTP", "TCP", "UDP")
PORT_RANGE = "must be between 1 and 65535, inclusive"


def check_port_number(number: int, path: str, errors: list[FieldError]) -> None:
    """Check that the number of a port is valid."""
    if not 1 <= number <= 65535:
        errors.append(invalid(path, number, PORT_RANGE))


def check_ports(ports: Json, path: str, errors: list[FieldError], options: Options) -> None:
    """Check the ports of one container at `path`."""
    names: set[str] = set()
    for index, port in mappings(ports):
        where = f"{path}[{index}]"
        if name := text(port.get("name")):
            if problems := port_name(name):
                errors += invalid_for(f"{where}.name", name, problems)
            elif name in names:
                errors.append(duplicate(f"{where}.name", name))
            names.add(name)
        number, on_host = integer(port.get("containerPort")), integer(port.get("hostPort"))
        if number == 0:
            errors.append(required(f"{where}.containerPort"))
        else:
            check_port_number(number, f"{where}.containerPort", errors)
        if on_host:
            check_port_number(on_host, f"{where}.hostPort", errors)
        errors += check_choice(port, "protocol", PROTOCOLS, where, options)


def check_host_port_conflicts(containers: Json, path: str, errors: list[FieldError]) -> None:
    """Check that no two containers use the same port of the host."""
    taken: set[str] = set()
    for number, container in mappings(containers):
        for index, port in mappings(container.get("ports")):
            on_host = integer(port.get("hostPort"))
            if not on_host:
                continue
            use = f"{text(port.get('protocol')) or 'TCP'}/{text(port.get('hostIP'))}/{on_host}"
            if use in taken:
                errors.append(duplicate(f"{path}[{number}].ports[{index}].hostPort", use))
            taken.add(use)


NOT_NEGATIVE = "must be greater than or equal to 0"

_COUNTERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_HEADER = re.compile(r"[-A-Za-z0-9]+")
_BAD_HEADER = (
    "a valid HTTP header must consist of alphanumeric characters or '-' "
    "(e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"
)


def check_lifecycle(lifecycle: Json, path: str, errors: list[FieldError], grace_seconds: int, options: Options) -> None:
    """Check the hooks of a container at `path`."""
    for hook in ("postStart", "preStop"):
        if (given := mapping(lifecycle).get(hook)) is not None:
            handler = mapping(given)
            if _check_handler(handler, f"{path}.{hook}", errors) == "sleep":
                _check_sleep(mapping(handler["sleep"]), f"{path}.{hook}.sleep", errors, grace_seconds, options)


def check_liveness(probe: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    """Check a liveness or startup probe, whose success threshold must be 1."""
    _check_probe(probe, path, errors)
    successes = integer(probe.get("successThreshold"))
    if successes not in (0, 1):
        errors.append(invalid(f"{path}.successThreshold", successes, "must be 1"))


def check_readiness(probe: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    """Check a readiness probe, which has no grace period, because it terminates nothing."""
    _check_probe(probe, path, errors)
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None:
        errors.append(invalid(f"{path}.terminationGracePeriodSeconds", grace, "must not be set for readinessProbes"))


def _check_probe(probe: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    _check_handler(probe, path, errors)
    errors += [
        invalid(f"{path}.{counter}", probe[counter], NOT_NEGATIVE)
        for counter in _COUNTERS
        if counter in probe and integer(probe[counter]) < 0
    ]
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and integer(grace) <= 0:
        errors.append(invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0"))


def _check_handler(handler: Mapping[str, Any], path: str, errors: list[FieldError]) -> str:
    """Check the handler at `path`; return its kind, or the first of several kinds."""
    given = [kind for kind in _HANDLERS if handler.get(kind) is not None]
    if not given:
        errors.append(required(path, "must specify a handler type"))
    for position, kind in enumerate(given):
        where, action = f"{path}.{kind}", mapping(handler[kind])
        if position:
            errors.append(forbidden(where, "may not specify more than 1 handler type"))
        elif kind == "exec":
            if not action.get("command"):
                errors.append(required(f"{where}.command"))
        elif kind == "httpGet":
            _check_http(action, where, errors)
        elif kind in ("tcpSocket", "grpc"):
            check_port(action.get("port"), f"{where}.port", errors)
    return given[0] if given else ""


def _check_http(action: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    check_port(action.get("port"), f"{path}.port", errors)
    scheme = action.get("scheme")
    if scheme and scheme not in ("HTTP", "HTTPS"):
        errors.append(unsupported(f"{path}.scheme", scheme, ("HTTP", "HTTPS")))
    for _, header in mappings(action.get("httpHeaders")):
        name = text(header.get("name"))
        if not _HEADER.fullmatch(name):
            errors.append(invalid(f"{path}.httpHeaders", name, _BAD_HEADER))


def check_port(port: Json, path: str, errors: list[FieldError]) -> None:
    """Check the number or name of a port at `path`."""
    if isinstance(port, str):
        errors += invalid_for(path, port, port_name(port))
    else:
        check_port_number(integer(port), path, errors)


def _check_sleep(action: Mapping[str, Any], path: str, errors: list[FieldError], grace_seconds: int, options: Options) -> None:
    seconds = integer(action.get("seconds"))
    if options.current:
        if not 0 <= seconds <= grace_seconds:
            detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_seconds})"
            errors.append(invalid(path, seconds, detail))
    elif not 0 < seconds <= grace_seconds:
        detail = (
            f"must be greater than 0 and less than terminationGracePeriodSeconds ({grace_seconds}). "
            "Enable AllowPodLifecycleSleepActionZeroValue feature gate for zero sleep."
        )
        errors.append(invalid(path, seconds, detail))
