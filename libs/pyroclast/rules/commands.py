"""Rules of Command: its action must be known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.api.enums import Action
from pyroclast.resources.go_text import go_quote
from pyroclast.rules.errors import required, unsupported
from pyroclast.rules.values import mapping, text
from pyroclast.rules.verdicts import Verdict, found, verdict_of

_OF_JOBS: Final = sorted(action for action in Action if action.is_for_policies or action in {Action.SYNC_JOB, Action.ENQUEUE_JOB})
_OF_QUEUES: Final = sorted((Action.OPEN_QUEUE, Action.CLOSE_QUEUE, Action.SYNC_QUEUE))
_ACTIONS: Final[Mapping[str, list[Action]]] = {"Job": _OF_JOBS, "Queue": _OF_QUEUES}
"""The allowed actions, by the kind of the target."""


def validate(command: Mapping[str, Any]) -> Verdict:
    """Return the verdict on a new Command: the kind of its target must support its action."""
    kind, action = text(mapping(command.get("target")).get("kind")), text(command.get("action"))
    known = [str(each) for each in _ACTIONS.get(kind, sorted(Action))]
    if action in known:
        return verdict_of([])
    listed = f"there are {', '.join(known)}"
    if not action:
        return verdict_of([found(f"a command needs an action; {listed}", required("action", listed))])
    sentence = f"unknown action {go_quote(action)}{f' of a {kind}' if kind in _ACTIONS else ''}; {listed}"
    return verdict_of([found(sentence, unsupported("action", action, known))])
