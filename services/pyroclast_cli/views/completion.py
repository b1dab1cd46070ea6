"""The command `vcctl completion`: scripts for completion in bash, zsh and fish. Names are read from the cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pyroclast_cli.context import Context, Failure
from pyroclast_cli.tree import Group, Leaf
from pyroclast_cli.views.completing import Place, place_of, split_at_equals

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


COMPLETION: Final = Leaf(
    "completion",
    "print the completion script of a shell: bash, zsh or fish",
    _print_script,
    takes="SHELL",
    needs_cluster=False,
    is_ours=True,
)


def complete(root: Callable[[], Group]) -> Leaf:
    """Return the command that completion scripts of shells call. Words that begin with a dash follow `--`."""

    async def work(context: Context) -> None:
        words, is_split = split_at_equals(list(context.arguments))
        place = place_of(root(), words)
        found = [*place.words, *(SCRIPTS if place.wants_shell else ()), *await _names(place)]
        for each in sorted({each for each in found if each.startswith(place.prefix)}):
            context.say(each if is_split or not place.joined else f"{place.joined}{each}")

    return Leaf("__complete", "what the scripts of `completion` ask", work, needs_cluster=False, is_ours=True)


async def _names(place: Place) -> Sequence[str]:
    """Return the names in the cluster that complete the word. Empty when the server does not answer."""
    if place.kind is None and not place.wants_context and not place.label_of_nodes:
        return ()
    from pyroclast_cli.views.cluster_names import names_for  # noqa: PLC0415 - completion of plain words needs no cluster

    return await names_for(place)
