"""The commands `vcctl flow run` and `vcctl flow resume`: start a flow with parameters, and run a failed one from its failure."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from pyroclast.api import keys
from pyroclast.api.types import JOB_FLOWS, Key
from pyroclast.views.jobs import phase_of
from pyroclast_cli.flags import Context, Failure, Flag
from pyroclast_cli.tree import Group, OwnLeaf
from pyroclast_cli.views.scope import NAMESPACE, existing, namespace_of

_SUFFIX: Final = 3  # bytes: six characters
_OF_THE_SERVER: Final = frozenset({
    "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "finalizers", "ownerReferences",
})  # fmt: skip
_NOT_COPIED: Final = frozenset({
    keys.FLOW_RESUME, keys.SUBMITTED_BY, keys.FORCE_DELETE, "kubectl.kubernetes.io/last-applied-configuration",
})  # fmt: skip


async def _run(context: Context) -> None:
    namespace = namespace_of(context)
    source = _from_file(context.text("filename")) if context.text("filename") else await _copied(context, namespace)
    spec = dict(source.get("spec") or {})
    spec["parameters"] = {**(spec.get("parameters") or {}), **_parameters(context.texts("param"), spec.get("parameters") or {})}
    metadata = {**source["metadata"], "namespace": namespace}
    if context.text("name"):
        metadata["name"] = context.text("name")
    if not spec["parameters"]:
        del spec["parameters"]
    body = {"apiVersion": JOB_FLOWS.api_version, "kind": JOB_FLOWS.kind, "metadata": metadata, "spec": spec}
    made = await context.client.create(JOB_FLOWS, body, namespace=namespace)
    context.say(f"jobflow.flow.volcano.sh/{made['metadata']['name']} created")


async def _copied(context: Context, namespace: str) -> dict[str, Any]:
    """Return an existing flow under a new name, as the source of a new run."""
    name = _name(context)
    flow = await existing(context, JOB_FLOWS, Key(namespace, name), f"JobFlow {namespace}/{name}")
    metadata = {field: value for field, value in flow["metadata"].items() if field not in _OF_THE_SERVER}
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key not in _NOT_COPIED}
    metadata |= {"name": f"{name}-{secrets.token_hex(_SUFFIX)}", "annotations": annotations}
    return {**flow, "metadata": metadata}


def _from_file(file: str) -> dict[str, Any]:
    try:
        documents = list(yaml.load_all(Path(file).read_text(), Loader=yaml.CSafeLoader))
    except OSError as error:
        raise Failure(f"{file}: {(error.strerror or str(error)).lower()}") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise Failure(f"{file} is not YAML: {error}") from None
    flows = [each for each in documents if isinstance(each, dict) and each.get("kind") == JOB_FLOWS.kind]
    if len(flows) != 1 or not isinstance(flows[0].get("metadata"), dict):
        raise Failure(f"{file} must have one JobFlow with metadata, but has {len(flows)}; create its JobTemplates with kubectl")
    return flows[0]


def _parameters(given: Iterable[str], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of `NAME=VALUE` arguments, each of the type of its default."""
    found = {}
    for each in given:
        name, is_pair, text = each.partition("=")
        if not is_pair or not name:
            raise Failure(f'-p {each}: write NAME=VALUE, such as "-p lr=0.1"')
        if name not in defaults:
            known = ", ".join(sorted(defaults)) or "none"
            raise Failure(f"-p {each}: the flow has no parameter {name}; spec.parameters has {known}")
        found[name] = _value(each, text, defaults[name])
    return found


def _value(given: str, text: str, default: object) -> object:
    """Return `text` as a value of the type of `default`. A whole number stays whole, also where the default has a fraction."""
    if isinstance(default, str):
        return text
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    wants_truth = isinstance(default, bool)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not (isinstance(value, bool) if wants_truth else is_number):
        kind = "true or false" if wants_truth else "a number"
        raise Failure(f"-p {given}: must be {kind}, as its default {json.dumps(default)} is")
    return value


async def _resume(context: Context) -> None:
    from pyroclast.kube.http.client import PatchKind  # noqa: PLC0415 - it loads what other commands do not need

    key = Key(namespace_of(context), _name(context))
    flow = await existing(context, JOB_FLOWS, key, f"JobFlow {key}")
    phase, status = phase_of(flow), flow.get("status") or {}
    if phase != "Failed":
        raise Failure(f"JobFlow {key} is {phase or 'Pending'}; only a flow that is Failed can be resumed")
    # the same failure gives the same value, so that a repeated command resumes the flow once
    value = f"{status.get('completionTime')}"
    while value == status.get("resumed"):
        value += "+"
    patch = {"metadata": {"uid": flow["metadata"]["uid"], "annotations": {keys.FLOW_RESUME: value}}}
    await context.client.patch(JOB_FLOWS, key, patch, PatchKind.MERGE)
    context.say(f"jobflow.flow.volcano.sh/{key.name} resumed: what failed runs again, and what depends on it")


def _name(context: Context) -> str:
    if len(context.arguments) != 1:
        raise Failure(f"name one flow; there are {len(context.arguments)} names")
    return context.arguments[0].removeprefix("flow/")


FLOW: Final = Group(
    "flow",
    "start flows with parameters, and resume failed flows",
    (
        OwnLeaf(
            "run",
            "start a copy of a flow, or the flow of a file, with parameters",
            _run,
            (
                NAMESPACE,
                Flag("filename", "f", "", "the file of the flow, in place of the name of an existing one"),
                Flag("param", "p", "", "a parameter as NAME=VALUE; may be repeated", "stringArray"),
                Flag("name", "", "", "the name of the new flow"),
            ),
            takes="[FLOW]",
        ),
        OwnLeaf("resume", "run what failed in a flow again, and what depends on it", _resume, (NAMESPACE,), takes="FLOW"),
    ),
)
