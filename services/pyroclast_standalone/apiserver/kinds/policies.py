"""Expressions of webhooks and admission policies, checked when they are stored."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pyroclast_standalone.apiserver.documents.cel import CompileError, Environment
from pyroclast_standalone.apiserver.documents.cel.types import BOOL, STRING, Type
from pyroclast_standalone.apiserver.documents.errors import FieldError, duplicate, invalid, required, unsupported
from pyroclast_standalone.apiserver.documents.names import dns_service_label, dns_subdomain, label_key
from pyroclast_standalone.apiserver.documents.policies import compile_checked, environment_of

from .checks import named

__all__ = ["check_conditions", "check_policy"]

_IDENTIFIER: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")


def _check_expression(text: str, environment: Environment, wanted: Type | None, path: str) -> list[FieldError]:
    try:
        compile_checked(text, environment, wanted)
    except CompileError as error:
        return [invalid(path, text, str(error))]
    return []


def check_conditions(conditions: list[dict[str, Any]], path: str, environment: Environment | None = None) -> list[FieldError]:
    """What is wrong with match conditions."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        own = f"{path}[{index}]"
        name, text = condition.get("name", ""), condition.get("expression", "")
        if not text.strip():
            errors.append(required(f"{own}.expression"))
        else:
            errors += _check_expression(text, environment or environment_of(), BOOL, f"{own}.expression")
        if not name:
            errors.append(required(f"{own}.name"))
        elif name in seen:
            errors.append(duplicate(f"{own}.name", name))
        else:
            errors += named(name, label_key, f"{own}.name")
        seen.add(name)
    return errors


def _check_variables(variables: list[dict[str, Any]], *, has_params: bool) -> tuple[list[str], list[FieldError]]:
    errors: list[FieldError] = []
    names: list[str] = []
    for index, variable in enumerate(variables):
        own = f"spec.variables[{index}]"
        name, text = variable.get("name", ""), variable.get("expression", "")
        if not name:
            errors.append(required(f"{own}.name", "name is not specified"))
        elif not _IDENTIFIER.fullmatch(name):
            errors.append(invalid(f"{own}.name", name, "must be a valid CEL identifier"))
        if not text.strip():
            errors.append(required(f"{own}.expression", "expression is not specified"))
        else:
            environment = environment_of(has_params=has_params, variables=names)
            errors += _check_expression(text, environment, None, f"{own}.expression")
        names.append(name)
    return names, errors


def _check_validation(validation: Mapping[str, Any], environment: Environment, path: str) -> list[FieldError]:
    text, message = validation.get("expression", ""), validation.get("message")
    errors: list[FieldError] = []
    if not text.strip():
        errors.append(required(f"{path}.expression", "expression is not specified"))
    else:
        errors += _check_expression(text, environment, BOOL, f"{path}.expression")
    if made := validation.get("messageExpression"):
        errors += _check_expression(made, environment, STRING, f"{path}.messageExpression")
    if message is not None and not message.strip():
        errors.append(invalid(f"{path}.message", message, "must be non-empty if specified"))
    elif message is not None and "\n" in message.strip():
        errors.append(invalid(f"{path}.message", message, "must not contain line breaks"))
    elif "\n" in text.strip() and not message:
        errors.append(required(f"{path}.message", "message must be specified if expression contains line breaks"))
    if (reason := validation.get("reason")) is not None and reason not in _REASONS:
        errors.append(unsupported(f"{path}.reason", reason, _REASONS))
    return errors


def _check_mutation(mutation: Mapping[str, Any], environment: Environment, path: str) -> list[FieldError]:
    kind = mutation.get("patchType", "")
    if not kind:
        return [required(f"{path}.patchType")]
    fields = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}
    field = fields.get(kind)
    if field is None:
        return [unsupported(f"{path}.patchType", kind, sorted(fields))]
    holder = mutation.get(field)
    if holder is None:
        return [required(f"{path}.{field}", f"must be specified when patchType is {kind}")]
    text = holder.get("expression", "")
    if not text.strip():
        return [required(f"{path}.{field}.expression", "expression is not specified")]
    return _check_expression(text, environment, None, f"{path}.{field}.expression")


def _check_parameter_kind(kind: Mapping[str, Any], path: str) -> list[FieldError]:
    version, name = kind.get("apiVersion", ""), kind.get("kind", "")
    group, _, number = version.rpartition("/")
    own = f"{path}.apiVersion"
    if not version:
        errors = [required(own)]
    elif "/" in group:
        errors = [invalid(own, version, f"unexpected GroupVersion string: {version}")]
    else:
        wrong = dns_service_label(number)
        errors = named(group, dns_subdomain, own) if group else []
        errors += [invalid(own, number, ",".join(wrong))] if wrong else []
    if not name:
        return [*errors, required(f"{path}.kind")]
    wrong = dns_service_label(name.lower())
    text = "may have mixed case, but should otherwise match: " + ",".join(wrong)
    return [*errors, invalid(f"{path}.kind", name, text)] if wrong else errors


def check_policy(document: Mapping[str, Any]) -> list[FieldError]:
    """What is wrong with the expressions of a policy."""
    spec = document["spec"]
    has_params = spec.get("paramKind") is not None
    names, errors = _check_variables(spec.get("variables") or [], has_params=has_params)
    environment = environment_of(has_params=has_params, variables=names)
    if has_params:
        errors += _check_parameter_kind(spec["paramKind"], "spec.paramKind")
    errors += check_conditions(spec.get("matchConditions") or [], "spec.matchConditions", environment)
    if document.get("kind") == "MutatingAdmissionPolicy":
        if not spec.get("mutations"):
            errors.append(required("spec.mutations", "mutations must contain at least one item"))
        for index, mutation in enumerate(spec.get("mutations") or ()):
            errors += _check_mutation(mutation, environment, f"spec.mutations[{index}]")
        return errors
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        text = "validations or auditAnnotations must contain at least one item"
        errors += [required("spec.validations", text), required("spec.auditAnnotations", text)]
    for index, validation in enumerate(spec.get("validations") or ()):
        errors += _check_validation(validation, environment, f"spec.validations[{index}]")
    for index, annotation in enumerate(spec.get("auditAnnotations") or ()):
        own, text = f"spec.auditAnnotations[{index}]", annotation.get("valueExpression", "").strip()
        key = f"{document['metadata'].get('name', '')}/{annotation.get('key', '')}"
        errors += named(key, label_key, f"{own}.key")
        if not text:
            errors.append(required(f"{own}.valueExpression", "valueExpression is not specified"))
        else:
            errors += _check_expression(text, environment, None, f"{own}.valueExpression")
    return errors
