"""The rules in CEL for annotations that only our programs write: the submitter of an object, and the past use of a queue."""

from __future__ import annotations

from typing import Final

from pyroclast.api import keys
from pyroclast.rules.policies.model import Mutation, Validation
from pyroclast.rules.queues.fields import RECORDED, RECORDERS, WRITTEN_BY_RECORDER, path_of

NAMESPACE: Final = "OUR_NAMESPACE"
"""A placeholder in expressions for the namespace of Pyroclast's own programs."""

_USER: Final = "request.userInfo.username"
_OURS: Final = f"{_USER}.startsWith('system:serviceaccount:{NAMESPACE}:')"
_SAID: Final = "{0}.metadata.?annotations[?'" + keys.SUBMITTED_BY + "']"
_NEW, _OLD = _SAID.format("object"), _SAID.format("oldObject")
_POINTER: Final = "/metadata/annotations/" + keys.SUBMITTED_BY.replace("/", "~1")

CHANGED: Final = (
    "spec-changed",
    (f"request.operation != 'UPDATE' || object.metadata.generation != oldObject.metadata.generation || {_NEW} != {_OLD}"),
)
"""The condition of policies for specs and submitters: one of them was set or has changed."""

SUBMITTER_TRUE: Final = f"(request.operation == 'UPDATE' ? {_NEW} == {_OLD} : {_NEW}.orValue({_USER}) == {_USER})"

SUBMITTER_KEPT: Final = Validation(
    "`pyroclast.dev/submitted-by` is the user of the request, and is not changed",
    f"{_OURS} || {SUBMITTER_TRUE}",
    (
        f"metadata.annotations[{keys.SUBMITTED_BY}]: Forbidden: it tells who submitted this: it is written when that is created, "
        "and nobody may change it"
    ),
)

SUBMITTER_WRITTEN: Final = Mutation(
    "the annotation `pyroclast.dev/submitted-by`",
    (
        f"{_OURS} ? [] : has(object.metadata.annotations) "
        f'? [JSONPatch{{op: "add", path: "{_POINTER}", value: {_USER}}}] '
        f': [JSONPatch{{op: "add", path: "/metadata/annotations", value: {{"{keys.SUBMITTED_BY}": {_USER}}}}}]'
    ),
)


_WRITER: Final = "request.userInfo.username"
_RECORDER: Final = f"{_WRITER}.startsWith('system:serviceaccount:{NAMESPACE}:') && {_WRITER}.endsWith('{RECORDERS}')"


def _kept(key: str) -> Validation:
    new, old = (f"{each}.metadata.?annotations[?'{key}']" for each in ("object", "oldObject"))
    return Validation(
        f"only the recorder writes the annotation `{key.rpartition('/')[2]}`",
        f"({_RECORDER}) || (request.operation == 'UPDATE' ? {new} == {old} : !{new}.hasValue())",
        f"{path_of(key)}: Forbidden: {WRITTEN_BY_RECORDER}",
        operations=("CREATE", "UPDATE"),
    )


RECORDED_KEPT: Final = tuple(_kept(key) for key in RECORDED)
