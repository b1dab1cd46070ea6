"""The command `vcctl lint`: checks manifests by the rules of the webhooks, without a cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import yaml

from pyroclast_cli.context import Context, Failure
from pyroclast_cli.flags import Flag
from pyroclast_cli.tree import Leaf

STANDARD_INPUT: Final = "-"
SUFFIXES: Final = (".yaml", ".yml", ".json")


async def _lint(context: Context) -> int:
    from pyroclast_cli.views.manifests import check_manifests  # noqa: PLC0415 - imports the schemas, which other commands do not need

    files = [context.text("filename"), *context.arguments] if context.text("filename") else list(context.arguments)
    if not files:
        raise Failure("name a manifest: vcctl lint -f FILE, a folder, or - for standard input")
    faults = checked = 0
    for file in (found for each in files for found in _files(each)):
        for result in check_manifests(documents_in(file), context.text("namespace")):
            checked += 1
            faults += len(result.faults)
            for fault in result.faults:
                context.say(f"{file}: {result.name}: error: {fault}")
            for warning in result.warnings:
                context.say(f"{file}: {result.name}: warning: {warning}")
    context.say(f"{checked} {'object' if checked == 1 else 'objects'} checked, {faults} {'error' if faults == 1 else 'errors'}")
    return 1 if faults else 0


def _files(name: str) -> list[str]:
    folder = Path(name)
    if name == STANDARD_INPUT or not folder.is_dir():
        return [name]
    return sorted(str(each) for each in folder.rglob("*") if each.suffix in SUFFIXES)


def documents_in(file: str) -> list[dict[str, Any]]:
    """Return the objects of a manifest, including the items of lists.

    Raises:
        Failure: the file cannot be read, or a document is not an object.
    """
    try:
        text = sys.stdin.read() if file == STANDARD_INPUT else Path(file).read_text()
        documents = [each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each is not None]
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise Failure(f"{file} is not YAML{where}: {getattr(error, 'problem', None) or 'unreadable'}") from error
    flat = [item for each in documents for item in (each.get("items") if _is_list(each) else [each])]
    if not all(isinstance(each, dict) for each in flat):
        raise Failure(f"{file}: each document must be an object with apiVersion and kind")
    return flat


def _is_list(document: Any) -> bool:  # noqa: ANN401 - YAML
    return isinstance(document, dict) and document.get("kind") == "List" and isinstance(document.get("items"), list)


LINT: Final = Leaf(
    "lint",
    "check manifests by the rules of the webhooks, without a cluster",
    _lint,
    (
        Flag("filename", "f", "", "a manifest, a folder of them, or - for standard input"),
        Flag("namespace", "n", "default", "the namespace of what names none"),
    ),
    takes="[FILE...]",
    needs_cluster=False,
    is_ours=True,
)
