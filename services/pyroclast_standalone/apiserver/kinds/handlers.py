"""What is done to a container while it lives: probes and the hooks of its lifecycle."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import FieldError, forbidden, invalid, required, unsupported

from .checks import non_negative

__all__ = ["PROBES", "check_lifecycle", "check_port", "check_probe"]

PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_COUNTS: Final = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_HEADER: Final = re.compile("[-A-Za-z0-9]+")
_HEADER_TEXT: Final = (
    "a valid HTTP header must consist of alphanumeric characters or '-' "
    "(e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"
)


def check_port(port: int | str | None, path: str) -> list[FieldError]:
    """What is wrong with the number or name of a port."""
    if isinstance(port, str):
        return [invalid(path, port, sentence) for sentence in names.port_name(port)]
    if port is None or not 1 <= port <= 65535:
        return [invalid(path, port or 0, "must be between 1 and 65535, inclusive")]
    return []


def _check_request(action: Mapping[str, Any], path: str) -> list[FieldError]:
    errors = [] if action.get("path") else [required(f"{path}.path")]
    errors += check_port(action.get("port"), f"{path}.port")
    if (scheme := action.get("scheme", "")) not in {"HTTP", "HTTPS"}:
        errors.append(unsupported(f"{path}.scheme", scheme, ["HTTP", "HTTPS"]))
    for header in action.get("httpHeaders") or ():
        if not _HEADER.fullmatch(name := header.get("name", "")):
            errors.append(invalid(f"{path}.httpHeaders", name, _HEADER_TEXT))
    return errors


def _check_handler(handler: Mapping[str, Any], path: str, grace: int | None) -> list[FieldError]:
    given = [name for name in _HANDLERS if name in handler]
    if not given:
        return [required(path, "must specify a handler type")]
    kind = given[0]
    action, own = handler[kind], f"{path}.{kind}"
    errors: list[FieldError] = []
    match kind:
        case "exec" if not action.get("command"):
            errors.append(required(f"{own}.command"))
        case "httpGet":
            errors += _check_request(action, own)
        case "tcpSocket" | "grpc":
            errors += check_port(action.get("port"), f"{own}.port")
        case "sleep" if grace is not None and not 0 <= action.get("seconds", 0) <= grace:
            text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            errors.append(invalid(own, action.get("seconds", 0), text))
        case _:
            pass
    if len(given) > 1:
        errors += [forbidden(f"{path}.{extra}", "may not specify more than 1 handler type") for extra in given[1:]]
    return errors


def check_probe(container: Mapping[str, Any], name: str, path: str, grace: int | None) -> list[FieldError]:
    """What is wrong with the probe `name`, if there is one; `grace` is how long the pod may take to end."""
    probe = container.get(name)
    if probe is None:
        return []
    own = f"{path}.{name}"
    errors = _check_handler(probe, own, grace)
    errors += non_negative(probe, _COUNTS, own)
    patience = probe.get("terminationGracePeriodSeconds")
    if patience is not None and patience <= 0:
        errors.append(invalid(f"{own}.terminationGracePeriodSeconds", patience, "must be greater than 0"))
    if name == "readinessProbe":
        if patience is not None:
            text = "must not be set for readinessProbes"
            errors.append(invalid(f"{own}.terminationGracePeriodSeconds", patience, text))
    elif probe.get("successThreshold", 1) != 1:
        errors.append(invalid(f"{own}.successThreshold", probe["successThreshold"], "must be 1"))
    return errors


def check_lifecycle(container: Mapping[str, Any], path: str, grace: int | None) -> list[FieldError]:
    """What is wrong with the hooks of a container."""
    lifecycle = container.get("lifecycle") or {}
    return [
        error
        for name in ("postStart", "preStop")
        if name in lifecycle
        for error in _check_handler(lifecycle[name], f"{path}.lifecycle.{name}", grace)
    ]
