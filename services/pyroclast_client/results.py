"""What functions returned, read from their pods: nothing is unpickled before its seal is found right."""

from __future__ import annotations

import base64
import json
import pickle
from dataclasses import dataclass
from typing import Any, Final

from pyroclast_client import errors
from pyroclast_client.runner import sealing

__all__ = ["Envelope", "Outcome", "Started", "decoded", "envelope", "stored_value"]

UNSEALED: Final = "it was not unpickled"


@dataclass(frozen=True, slots=True)
class Envelope:
    """A sealed message that was found right; its content may have to be fetched from the log or the store."""

    message: dict[str, Any]

    @property
    def place(self) -> str:
        """Where the content is: `inline`, `log`, `store` or `none`."""
        return str(self.message["place"])

    @property
    def frames(self) -> int:
        """How many lines of the log carry the content."""
        return sealing.number_of_frames(self.message["size"])


@dataclass(frozen=True, slots=True)
class Started:
    """The pod of a call runs."""

    index: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one call: a value, or the error to raise for it."""

    index: int
    value: Any = None
    error: errors.PyroclastError | None = None


def envelope(key: bytes, text: str, *, index: int, attempt: str, what: str) -> Envelope:
    """The message that a pod left.

    Raises:
        ForgedResult: it does not carry the seal of this Job, index and pod.
    """
    try:
        return Envelope(sealing.opened(key, text, index, attempt))
    except sealing.SealError as error:
        raise errors.ForgedResult(f"{what}: {error}; {UNSEALED}. Look at who may write to pods of this namespace") from error


def decoded(found: Envelope, payload: bytes | None, *, what: str, name: str) -> Outcome:
    """What the content of a message says; `payload` is None where the log or the store does not have it any more."""
    message, index = found.message, int(found.message["index"])
    if message["kind"] == "too-large":
        limit = f"{message['size']:,} bytes, more than the {sealing.LOG_BYTES:,} that a log carries"
        text = f"{what}: the result is {limit}; give a store: `store='file:///shared/folder'` for the task or the client"
        return Outcome(index, error=errors.ResultTooLarge(text))
    if payload is None:
        where = "log was cut or rotated" if found.place == "log" else "store does not have it any more"
        text = f"{what}: its result is gone, as the {where}; give a store, or fetch results as Jobs end"
        return Outcome(index, error=errors.ResultGone(text))
    try:
        sealing.content(message, payload)
    except sealing.SealError as error:
        text = f"{what}: {error}; {UNSEALED}. Look at who may write to the store and the log"
        return Outcome(index, error=errors.ForgedResult(text))
    match message["kind"]:
        case "value":
            return _value(message, payload, index, what)
        case "mismatch":
            told = json.loads(payload)
            there, here = (".".join(map(str, told[side])) for side in ("here", "wanted"))
            text = f"{what}: the image has Python {there} and this is Python {here}; use an image with Python {here}"
            return Outcome(index, error=errors.VersionMismatch(text))
    told = json.loads(payload)
    raised = f"{told['type']}: {told['message']}"
    text = f"{what}: {name} raised {raised}; `logs(index={index})` has what it printed"
    if message["kind"] == "unloadable" and told["packages"]:
        text = f"{what}: {name} could not be loaded in the pod, as {', '.join(told['packages'])}: {raised}"
        return Outcome(index, error=errors.VersionMismatch(f"{text}. Use an image with the same packages"))
    if message["kind"] == "unloadable":
        text = f"{what}: {name} could not be loaded in the pod: {raised}. Install what it imports in the image"
    raised_there = errors.TaskError(text, index=index, remote_traceback=told["traceback"])
    raised_there.__cause__ = _exception(told["pickle"])
    return Outcome(index, error=raised_there)


def stored_value(key: bytes, store: str, kept: bytes | None, *, entry: str, number: int, what: str) -> Any:  # noqa: ANN401 - what the function returned
    """The value of an entry of a flow, from what its pod has put into the store; `kept` is None where nothing is there.

    Raises:
        ResultGone: it is not there.
        ForgedResult: it does not carry the seal of the flow, entry and round. It was not unpickled.
    """
    if kept is None:
        raise errors.ResultGone(f"{what}: its value is not in the store {store}; look whether this machine sees that store")
    text, _, payload = kept.partition(b"\n")
    try:
        message = sealing.opened(key, text.decode(errors="replace"), number, entry)
        sealing.content(message, payload)
    except sealing.SealError as error:
        raise errors.ForgedResult(f"{what}: {error}; {UNSEALED}. Look at who may write to the store") from error
    outcome = _value(message, payload, number, what)
    if outcome.error is not None:
        raise outcome.error
    return outcome.value


def _value(message: dict[str, Any], payload: bytes, index: int, what: str) -> Outcome:
    if message["encoding"] == "json":
        return Outcome(index, json.loads(payload))
    try:
        return Outcome(index, pickle.loads(payload))  # noqa: S301 - its seal is right
    except Exception as error:  # noqa: BLE001 - whatever a class raises when it is made anew
        told = errors.TaskError(
            f"{what}: the result cannot be unpickled here: {error!r}; install its class here, or return plain values", index=index
        )
        told.__cause__ = error
        return Outcome(index, error=told)


def _exception(text: str | None) -> BaseException | None:
    """The exception that was raised; None when its class is not known here."""
    if text is None:
        return None
    try:
        found = pickle.loads(base64.b64decode(text))  # noqa: S301 - the seal of what it came in is right
    except Exception:  # noqa: BLE001 - its class is missing here, or does not come back from a pickle: words tell of it
        return None
    return found if isinstance(found, BaseException) else None
