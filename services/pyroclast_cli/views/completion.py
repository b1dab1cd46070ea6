"""`vcctl completion`: what the tabulator key completes in bash, zsh and fish; names come from the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from pyroclast.api.types import JOB_FLOWS, JOBS, ResourceType
from pyroclast.kube.config import ConfigError
from pyroclast.kube.errors import KubeError
from pyroclast_cli.context import Context, Failure
from pyroclast_cli.flags import GLOBAL_FLAGS
from pyroclast_cli.tree import Group, Leaf, Node

__all__ = ["COMPLETION", "candidates", "complete"]

SCRIPTS: Final = {
    "bash": """_vcctl() {
  local words
  words=$(vcctl __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -F _vcctl vcctl
""",
    "zsh": """#compdef vcctl
_vcctl() {
  local -a found
  found=(${(f)"$(vcctl __complete -- "${words[@]:1:$((CURRENT-1))}" 2>/dev/null)"})
  compadd -a found
}
compdef _vcctl vcctl
""",
    "fish": """complete -c vcctl -f -a '(vcctl __complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
""",
}
NAMES_OF: Final[dict[str, ResourceType]] = {
    "explain": JOBS,
    "logs": JOBS,
    "wait": JOBS,
    "timeline": JOBS,
    "tree": JOB_FLOWS,
}


def candidates(root: Group, words: Sequence[str]) -> list[str]:
    """What may stand at the last of `words`: commands of the group before it, or flags of the command."""
    node: Node = root
    for word in words[:-1]:
        child = next((each for each in node.children if each.name == word), None) if isinstance(node, Group) else None
        node = child or node
    last = words[-1] if words else ""
    return sorted(each for each in _offered(node, last) if each.startswith(last))


def _offered(node: Node, last: str) -> Iterator[str]:
    if isinstance(node, Group):
        yield from (each.name for each in node.children if not each.name.startswith("_"))
    elif last.startswith("-"):
        yield from (f"--{flag.name}" for flag in (*node.all_flags, *GLOBAL_FLAGS))


async def _print_script(context: Context) -> None:
    shell = context.arguments[0] if len(context.arguments) == 1 else ""
    if shell not in SCRIPTS:
        raise Failure(f"name a shell: {', '.join(SCRIPTS)}; in bash: source <(vcctl completion bash)")
    context.say(SCRIPTS[shell].rstrip("\n"))


COMPLETION: Final = Leaf(
    "completion",
    "print the completion script of a shell: bash, zsh or fish",
    _print_script,
    takes="SHELL",
    needs_cluster=False,
    is_ours=True,
)


def complete(root: Callable[[], Group]) -> Leaf:
    """The command that the scripts call; words that begin with a dash stand behind `--`."""

    async def work(context: Context) -> None:
        words = list(context.arguments)
        found = candidates(root(), words)
        kind = NAMES_OF.get(words[0]) if len(words) > 1 and not words[-1].startswith("-") else None
        if kind is not None:
            found += sorted(name for name in await _names(kind) if name.startswith(words[-1]))
        for each in found:
            context.say(each)

    return Leaf("__complete", "what the scripts of `completion` ask", work, needs_cluster=False, is_ours=True)


async def _names(kind: ResourceType) -> list[str]:
    """The objects of the context's namespace; none where the server cannot be asked: nobody reads of it while typing."""
    from pyroclast_cli.cluster import connected  # noqa: PLC0415 - words are completed without it

    try:
        async with connected("", "") as client:
            objects, _ = await client.list(kind, client.config.namespace)
    except (ConfigError, KubeError):
        return []
    return [each["metadata"]["name"] for each in objects]
