"""The command `vcctl completion`: scripts for completion in bash, zsh and fish. Names are read from the cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import orjson
import yaml

from pyroclast.api.types import NODES
from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.credentials.config import ConfigError, configuration_files
from pyroclast_cli.flags import Context, Failure, connected
from pyroclast_cli.tree import Group, Leaf, OwnLeaf
from pyroclast_cli.views.completing import Place, place_of, split_at_equals

MOST: int = 500
"""Most names that are requested, because a shell shows no more usefully."""


async def names_for(place: Place) -> Sequence[str]:
    """Return the names that can complete the word. Without an answer there are none: no error is shown while the user types."""
    values = place.values
    kubeconfig = values.get("kubeconfig", "")
    try:
        if place.wants_context:
            return _contexts(configuration_files(kubeconfig))
        async with connected(kubeconfig, values.get("master", ""), values.get("context", "")) as client:
            if place.label_of_nodes:
                nodes, _ = await client.list(NODES)
                return sorted({label for node in nodes for label in node["metadata"].get("labels") or {}})
            if place.kind is None:
                return ()
            namespace = values.get("namespace") or client.config.namespace
            page = await client.list_page(place.kind, namespace if place.kind.namespaced else "", {"limit": str(MOST)})
    except (ConfigError, KubeError):
        return ()
    return [f"{place.slash}{each['metadata']['name']}" for each in orjson.loads(page).get("items") or ()]


def _contexts(files: Sequence[Path]) -> list[str]:
    """Return the contexts of kubeconfig files. An unreadable file has none."""
    contexts: list[str] = []
    for file in files:
        try:
            document = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)
        except (OSError, UnicodeDecodeError, yaml.YAMLError):
            continue
        listed = document.get("contexts") if isinstance(document, dict) else None
        contexts += [str(each["name"]) for each in listed or () if isinstance(each, dict) and each.get("name")]
    return contexts


SCRIPTS: Final = {
    "bash": """_vcctl() {
  local found
  found=$(vcctl __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  local current="${COMP_WORDS[COMP_CWORD]}"
  [[ $current == = ]] && current=""
  COMPREPLY=($(compgen -W "$found" -- "$current"))
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/] ]] && compopt -o nospace
}
complete -o default -F _vcctl vcctl
""",
    "zsh": """#compdef vcctl
_vcctl() {
  local -a found
  found=(${(f)"$(vcctl __complete -- "${words[@]:1:$((CURRENT-1))}" 2>/dev/null)"})
  if (( ${#found} )); then compadd -a found; else _files; fi
}
compdef _vcctl vcctl
""",
    "fish": """complete -c vcctl -a '(vcctl __complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
""",
}


async def _print_script(context: Context) -> None:
    shell = context.arguments[0] if len(context.arguments) == 1 else ""
    if shell not in SCRIPTS:
        raise Failure(f"name a shell: {', '.join(SCRIPTS)}; in bash: source <(vcctl completion bash)")
    context.say(SCRIPTS[shell].rstrip("\n"))


COMPLETION: Final = OwnLeaf(
    "completion",
    "print the completion script of a shell: bash, zsh or fish",
    _print_script,
    takes="SHELL",
    needs_cluster=False,
)


def complete(root: Callable[[], Group]) -> Leaf:
    """Return the command that completion scripts of shells call. Words that begin with a dash follow `--`."""

    async def work(context: Context) -> None:
        words, is_split = split_at_equals(list(context.arguments))
        place = place_of(root(), words)
        found = [*place.words, *(SCRIPTS if place.wants_shell else ()), *await _names(place)]
        for each in sorted({each for each in found if each.startswith(place.prefix)}):
            context.say(each if is_split or not place.joined else f"{place.joined}{each}")

    return OwnLeaf("__complete", "what the scripts of `completion` ask", work, needs_cluster=False)


async def _names(place: Place) -> Sequence[str]:
    """Return the names in the cluster that complete the word. Empty when the server does not answer."""
    if place.kind is None and not place.wants_context and not place.label_of_nodes:
        return ()
    return await names_for(place)
