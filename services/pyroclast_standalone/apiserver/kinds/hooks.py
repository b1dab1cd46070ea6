"""Webhook configurations. Beyond the schema, only faults are checked because of which a webhook could not be called as meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from pyroclast.rules.errors import FieldError, invalid, required, unsupported
from pyroclast.rules.podspecs.options import check_label_selector
from pyroclast_standalone.apiserver.documents.conditions import fault_of_condition
from pyroclast_standalone.apiserver.kinds.rules import Rules

_ONE_TARGET: Final = "exactly one of url or service is required"


def _check_client(client: Mapping[str, Any], path: str) -> list[FieldError]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [required(path, _ONE_TARGET)]
    if service is not None:
        return [required(f"{path}.service.{field}") for field in ("name", "namespace") if not service.get(field)]
    scheme, text = urlsplit(str(url)).scheme, "'https' is the only allowed URL scheme; desired format: https://host[/path]"
    return [] if scheme == "https" else [invalid(f"{path}.url", scheme, text)]


def _check_conditions(conditions: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    """Return the faults of match conditions. A condition that this server cannot evaluate is rejected."""
    errors: list[FieldError] = []
    for index, condition in enumerate(conditions):
        own, text = f"{path}[{index}].expression", condition.get("expression", "")
        if not text.strip():
            errors.append(required(own))
        elif fault := fault_of_condition(text):
            errors.append(invalid(own, text, fault))
    return errors


def _check_webhooks(document: dict[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, hook in enumerate(document.get("webhooks") or ()):
        path = f"webhooks[{index}]"
        effects = hook.get("sideEffects")
        if effects is None:
            errors.append(required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun"))
        elif effects not in {"None", "NoneOnDryRun"}:
            errors.append(unsupported(f"{path}.sideEffects", effects, ["None", "NoneOnDryRun"]))
        for field in ("namespaceSelector", "objectSelector"):
            check_label_selector(hook.get(field) or {}, f"{path}.{field}", errors)
        errors += _check_client(hook.get("clientConfig") or {}, f"{path}.clientConfig")
        errors += _check_conditions(hook.get("matchConditions") or [], f"{path}.matchConditions")
    return errors


WEBHOOKS: Final = Rules(check=_check_webhooks, generation=True)
"""The rules of mutating and validating webhook configurations."""
