"""Rules of Command: its target and action must be known, and the mark of its authorization is admission's alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.commands import authorization
from pyroclast.api.enums import Action
from pyroclast.resources.go_text import go_quote
from pyroclast.rules import submitters
from pyroclast.rules.errors import forbidden, invalid, required, unsupported
from pyroclast.rules.values import mapping, text
from pyroclast.rules.verdicts import Finding, Patch, Verdict, field_verdict, found, untold, verdict_of

_OF_JOBS: Final = sorted(action for action in Action if action.is_for_policies or action in {Action.SYNC_JOB, Action.ENQUEUE_JOB})
_OF_QUEUES: Final = sorted((Action.OPEN_QUEUE, Action.CLOSE_QUEUE, Action.SYNC_QUEUE))
_ACTIONS: Final[Mapping[str, list[Action]]] = {"Job": _OF_JOBS, "Queue": _OF_QUEUES}
"""The allowed actions, by the kind of the target."""

_POINTER: Final = "/metadata/annotations/" + keys.AUTHORIZED_FOR.replace("/", "~1")
_MARK: Final = f"metadata.annotations[{keys.AUTHORIZED_FOR}]"
_FIXED: Final = ("action", "target")


def validate(command: Mapping[str, Any]) -> Verdict:
    """Return the verdict on a new Command: its target is complete, and the kind of the target supports the action."""
    return verdict_of([*_check_action(command), *_check_target(mapping(command.get("target")))])


def validate_update(command: Mapping[str, Any], old: Mapping[str, Any]) -> Verdict:
    """Return the verdict on changing `old`: what was authorized stays as it is."""
    errors = [
        forbidden(name, "it cannot be changed; create another Command") for name in _FIXED if command.get(name) != old.get(name)
    ]
    if _mark(command) != _mark(old):
        errors.append(forbidden(_MARK, "admission writes it when the Command is created"))
    kept = submitters.validate(command, old, "", ours=False)
    return field_verdict(errors) if errors else kept


def validate_mark(command: Mapping[str, Any]) -> Verdict:
    """Return the verdict on the mark of a new Command. Where no webhook writes the mark, there is none."""
    mark, wanted = _mark(command), _authorization(command)
    return field_verdict(
        [invalid(_MARK, mark, f"must be {wanted}, which admission writes")] if mark not in (None, wanted) else []
    )


def mark(command: Mapping[str, Any], user: str = "") -> Patch:
    """Return the operations that mark an authorized Command, and write its user."""
    value = _authorization(command)
    if not isinstance(mapping(command.get("metadata")).get("annotations"), dict):
        both = {keys.AUTHORIZED_FOR: value, **({keys.SUBMITTED_BY: user} if user else {})}
        return [{"op": "add", "path": "/metadata/annotations", "value": both}]
    marked: Patch = [] if _mark(command) == value else [{"op": "add", "path": _POINTER, "value": value}]
    return [*marked, *submitters.stamp(command, user, ours=False)]


def absent(kind: str, key: str) -> Verdict:
    """Return the verdict on a Command whose target does not exist."""
    return field_verdict([invalid("target.name", key, f"there is no {kind} {key}")])


def replaced(kind: str, key: str, uid: str, there: str) -> Verdict:
    """Return the verdict on a Command for a predecessor of the object that has its name now."""
    return field_verdict([invalid("target.uid", uid, f"the {kind} {key} has the uid {there}")])


def _check_action(command: Mapping[str, Any]) -> Iterator[Finding]:
    kind, action = text(mapping(command.get("target")).get("kind")), text(command.get("action"))
    actions = [str(each) for each in _ACTIONS.get(kind, sorted(Action))]
    if action in actions:
        return
    listed = f"there are {', '.join(actions)}"
    if not action:
        yield found(f"a command needs an action; {listed}", required("action", listed))
        return
    sentence = f"unknown action {go_quote(action)}{f' of a {kind}' if kind in _ACTIONS else ''}; {listed}"
    yield found(sentence, unsupported("action", action, actions))


def _check_target(target: Mapping[str, Any]) -> Iterator[Finding]:
    kind = text(target.get("kind"))
    errors = [] if kind in _ACTIONS else [unsupported("target.kind", kind, sorted(_ACTIONS))]
    errors += [required(f"target.{name}", why) for name, why in _NEEDED.items() if not text(target.get(name))]
    for error in errors:
        yield untold(error)


_NEEDED: Final = {
    "name": "name the Job or Queue",
    "uid": "the uid of the object, so that the Command does not hit a successor of the same name",
}


def _mark(command: Mapping[str, Any]) -> object:
    return mapping(mapping(command.get("metadata")).get("annotations")).get(keys.AUTHORIZED_FOR)


def _authorization(command: Mapping[str, Any]) -> str:
    return authorization(text(mapping(command.get("target")).get("uid")), text(command.get("action")))
