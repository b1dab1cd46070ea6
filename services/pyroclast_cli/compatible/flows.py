"""The commands `vcctl jobflow` and `vcctl jobtemplate`: create, list, get, delete, describe."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson
import yaml

from pyroclast.api.keys import FORCE_DELETE
from pyroclast.api.types import JOB_FLOWS, JOB_TEMPLATES, Key, ResourceType
from pyroclast.kube.basics.errors import Forbidden, KubeError
from pyroclast.views.jobs import phase_of
from pyroclast.views.readable import age
from pyroclast_cli.compatible.commands import required_key
from pyroclast_cli.flags import Context, Failure, Flag
from pyroclast_cli.tree import Group, Leaf, original_group, text_of
from pyroclast_cli.views.output import fitted

GAP: Final = 4
FIELD_ORDER: Final = ("kind", "apiVersion", "metadata", "spec", "status")


@dataclass(frozen=True, slots=True)
class _Kind:
    """The differences between JobFlow and JobTemplate: `words` in help texts, `noun` in errors, and the columns of the table."""

    resource: ResourceType
    words: str
    noun: str
    row: Callable[[Mapping[str, Any], datetime], list[str]]
    header: tuple[str, ...]
    has_state: bool


async def _create(context: Context, *, kind: _Kind) -> None:
    for document in _documents(context.text("file")):
        metadata = document.setdefault("metadata", {})
        namespace = metadata.setdefault("namespace", "default")
        body = {**document, "apiVersion": kind.resource.api_version, "kind": kind.resource.kind}
        try:
            created = await context.client.create(kind.resource, body, namespace=namespace)
        except KubeError as error:
            context.say(f"Failed to create {kind.resource.kind}: {text_of(error)}")
        else:
            context.say(f"Created {kind.resource.kind}: {namespace}/{created['metadata']['name']}")


def _documents(file: str) -> list[dict[str, Any]]:
    try:
        text = Path(file).read_text() if file else ""
        if not file:
            raise Failure("open : no such file or directory")
        documents = [each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each is not None]
    except OSError as error:
        raise Failure(f"open {file}: {(error.strerror or str(error)).lower()}") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise Failure(f"{file} is not YAML: {error}") from error
    listed = [each["items"] if isinstance(each, dict) and isinstance(each.get("items"), list) else [each] for each in documents]
    documents = [each for items in listed for each in items]
    for document in documents:
        if not isinstance(document, dict) or not isinstance(document.get("metadata", {}), dict):
            raise Failure(f"{file}: each document must be an object with metadata")
    return documents


async def _list(context: Context, *, kind: _Kind) -> None:
    everywhere = "all-namespaces" in context.values and context.is_set("all-namespaces")
    objects, _ = await context.client.list(kind.resource, "" if everywhere else context.text("namespace"))
    if not objects:
        context.say("No resources found")
        return
    _print(context, objects, kind)


async def _get(context: Context, *, kind: _Kind) -> None:
    key = required_key(context, f"name is mandatory to get the particular {kind.words} details")
    _print(context, [await context.client.get(kind.resource, key)], kind)


def _print(context: Context, objects: Sequence[Mapping[str, Any]], kind: _Kind) -> None:
    now = datetime.fromtimestamp(context.client.now(), UTC)
    for line in fitted([list(kind.header), *(kind.row(each, now) for each in objects)], GAP):
        context.say(line)


async def _delete(context: Context, *, kind: _Kind) -> None:
    if not context.text("file"):
        key = required_key(context, f"{kind.noun} name must be specified")
        await context.client.get(kind.resource, key)
        await _remove(context, kind, key)
        context.say(f"Deleted {kind.resource.kind}: {key}")
        return
    for document in _documents(context.text("file")):
        metadata = document.get("metadata") or {}
        key = Key(metadata.get("namespace") or "default", metadata.get("name") or "")
        try:
            await _remove(context, kind, key)
        except KubeError as error:
            context.say(f"Failed to delete {kind.resource.kind}: {text_of(error)}")
        else:
            context.say(f"Deleted {kind.resource.kind}: {key}")


async def _remove(context: Context, kind: _Kind, key: Key) -> None:
    """Delete the object, also a flow that runs or a template in use, as Volcano's command does."""
    from pyroclast.kube.http.client import PatchKind  # noqa: PLC0415 - only commands with a cluster need it

    allowed = {"metadata": {"annotations": {FORCE_DELETE: "true"}}}
    with contextlib.suppress(Forbidden):  # who may only delete gets the answer of admission
        await context.client.patch(kind.resource, key, allowed, PatchKind.MERGE)
    await context.client.delete(kind.resource, key)


async def _describe(context: Context, *, kind: _Kind) -> None:
    output = context.text("format")
    if output not in {"yaml", "json"}:
        sys.stdout.write(f"Unsupported format: {output}")
        return
    name, namespace = context.text("name"), context.text("namespace")
    if name:
        objects = [await context.client.get(kind.resource, Key(namespace, name))]
        objects[0] = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, **objects[0]}
    else:
        listed, _ = await context.client.list(kind.resource, namespace)
        objects = [{field: value for field, value in each.items() if field not in {"apiVersion", "kind"}} for each in listed]
    sys.stdout.write("\n\n".join(_document(each, output, kind) for each in objects))


def _document(item: Mapping[str, Any], output: str, kind: _Kind) -> str:
    metadata = {field: value for field, value in item["metadata"].items() if field != "managedFields"}
    status = item.get("status") or ({"state": {}} if kind.has_state else {})
    whole = {**item, "metadata": metadata, "spec": item.get("spec") or {}, "status": status}
    if output == "yaml":
        return yaml.dump(whole, Dumper=yaml.CSafeDumper, sort_keys=True, default_flow_style=False)
    ordered = {field: whole[field] for field in FIELD_ORDER if field in whole}
    return orjson.dumps(ordered, option=orjson.OPT_INDENT_2).decode() + "\n"


def _flow_row(flow: Mapping[str, Any], now: datetime) -> list[str]:
    metadata = flow["metadata"]
    return [metadata["name"], metadata["namespace"], phase_of(flow), age(metadata.get("creationTimestamp"), now)]


def _template_row(template: Mapping[str, Any], _now: datetime) -> list[str]:
    return [template["metadata"]["name"], template["metadata"]["namespace"]]


def _group(kind: _Kind, *, lists_everywhere: bool) -> Group:
    resource = kind.resource.kind.lower()
    name = Flag("name", "N", "", f"the name of {kind.words}")
    namespace = Flag("namespace", "n", "default", f"the namespace of {kind.words}")
    file = Flag("file", "f", "", f"the path to the YAML file containing the {kind.words}")
    everywhere = Flag("all-namespaces", "", default=False, text=f"list {kind.words}s in all namespaces", kind="bool")
    output = Flag("format", "o", "yaml", "the format of output")
    return original_group(
        resource,
        f"vcctl command line operation {resource}",
        Leaf("create", f"create a {resource}", partial(_create, kind=kind), (file,)),
        Leaf("list", f"list {resource}s", partial(_list, kind=kind), (namespace, *([everywhere] if lists_everywhere else []))),
        Leaf("get", f"get a {resource}", partial(_get, kind=kind), (name, namespace)),
        Leaf("delete", f"delete a {resource}", partial(_delete, kind=kind), (name, namespace, file)),
        Leaf("describe", f"describe a {resource}", partial(_describe, kind=kind), (name, namespace, output)),
    )


JOB_FLOW: Final = _group(
    _Kind(JOB_FLOWS, "jobflow", "jobflow", _flow_row, ("Name", "Namespace", "Phase", "Age"), has_state=True),
    lists_everywhere=True,
)
JOB_TEMPLATE: Final = _group(
    _Kind(JOB_TEMPLATES, "job template", "job template", _template_row, ("Name", "Namespace"), has_state=False),
    lists_everywhere=False,
)
