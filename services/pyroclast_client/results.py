"""Reads the results of functions from their pods. Nothing is unpickled before its seal was verified."""

from __future__ import annotations

import base64
import json
import pickle
from dataclasses import dataclass
from typing import Any, Final

from pyroclast_client import errors
from pyroclast_client.runner import sealing

UNSEALED: Final = "it was not unpickled"


@dataclass(frozen=True, slots=True)
class Started:
    """Reports that the pod of a call runs."""

    index: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one call: a value, or the exception to raise."""

    index: int
    value: Any = None
    error: errors.PyroclastError | None = None


def decoded(message: dict[str, Any], payload: bytes | None, *, what: str, name: str, is_json: bool = False) -> Outcome:
    """Return the outcome of a call from its termination message, whose seal was verified.

    `payload` is the result as bytes. It is None when the log or the store no longer has the result. With `is_json`, nothing is
    unpickled: a pickled result is an error, and an exception of the function has only its text.
    """
    index = int(message["index"])
    if message["kind"] == "too-large":
        limit = f"{message['size']:,} bytes, more than the {sealing.LOG_BYTES:,} that a log carries"
        text = f"{what}: the result is {limit}; give a store: `store='file:///shared/folder'` for the task or the client"
        return Outcome(index, error=errors.ResultTooLarge(text))
    if payload is None:
        where = "log was cut or rotated" if message["place"] == "log" else "store does not have it any more"
        text = f"{what}: its result is gone, as the {where}; give a store, or fetch results as Jobs end"
        return Outcome(index, error=errors.ResultGone(text))
    try:
        sealing.content(message, payload)
    except sealing.SealError as error:
        text = f"{what}: {error}; {UNSEALED}. Look at who may write to the store and the log"
        return Outcome(index, error=errors.ForgedResult(text))
    return outcome_of(message, payload, what=what, name=name, is_json=is_json)


def outcome_of(message: dict[str, Any], payload: bytes, *, what: str, name: str, is_json: bool = False) -> Outcome:
    """Return the outcome of a call from a message and its content, whose seals were verified."""
    index = int(message["index"])
    match message["kind"]:
        case "value":
            return _value(message, payload, index, what, is_json=is_json)
        case "mismatch":
            told = json.loads(payload)
            there, here = (".".join(map(str, told[side])) for side in ("here", "wanted"))
            text = f"{what}: the image has Python {there} and this is Python {here}; use an image with Python {here}"
            return Outcome(index, error=errors.VersionMismatch(text))
        case "timeout":
            text = f"{what}: {name} ran longer than its timeout of {json.loads(payload)['seconds']:g} s, and does not run again"
            return Outcome(index, error=errors.TimedOut(f"{text}; give a longer `timeout`"))
    told = json.loads(payload)
    raised = f"{told['type']}: {told['message']}"
    text = f"{what}: {name} raised {raised}; `logs(index={index})` has what it printed"
    if message["kind"] == "unpicklable":
        text = f"{what}: {name} returned what cannot be sent: {raised}. Return plain values; the call does not run again"
    if message["kind"] == "unloadable" and told["packages"]:
        text = f"{what}: {name} could not be loaded in the pod, as {', '.join(told['packages'])}: {raised}"
        return Outcome(index, error=errors.VersionMismatch(f"{text}. Use an image with the same packages"))
    if message["kind"] == "unloadable":
        text = f"{what}: {name} could not be loaded in the pod: {raised}. Install what it imports in the image"
    raised_there = errors.TaskError(text, index=index, remote_traceback=told["traceback"])
    raised_there.__cause__ = None if is_json else _exception(told["pickle"])
    return Outcome(index, error=raised_there)


def stored_value(key: bytes, store: str, kept: bytes | None, *, entry: str, number: int, what: str, is_json: bool = False) -> Any:  # noqa: ANN401 - what the function returned
    """Return the value of a flow entry from the bytes that its pod stored. `kept` is None when the store has none.

    With `is_json`, nothing is unpickled.

    Raises:
        ResultGone: the store does not have the value.
        ForgedResult: the value does not carry the seal of the flow, entry and round, or is pickled although it must be JSON. The
            client did not unpickle it.
    """
    if kept is None:
        raise errors.ResultGone(f"{what}: its value is not in the store {store}; look whether this machine sees that store")
    text, _, payload = kept.partition(b"\n")
    try:
        message = sealing.opened(key, text.decode(errors="replace"), number, entry)
        sealing.content(message, payload)
    except sealing.SealError as error:
        raise errors.ForgedResult(f"{what}: {error}; {UNSEALED}. Look at who may write to the store") from error
    outcome = _value(message, payload, number, what, is_json=is_json)
    if outcome.error is not None:
        raise outcome.error
    return outcome.value


def _value(message: dict[str, Any], payload: bytes, index: int, what: str, *, is_json: bool) -> Outcome:
    if message["encoding"] == "json":
        return Outcome(index, json.loads(payload))
    if is_json:
        text = f"{what}: the result is pickled and the task has serializer='json'; {UNSEALED}. Look at who may change its pods"
        return Outcome(index, error=errors.ForgedResult(text))
    try:
        return Outcome(index, pickle.loads(payload))  # noqa: S301 - its seal was verified
    except Exception as error:  # noqa: BLE001 - any exception of a class's unpickling
        told = errors.TaskError(
            f"{what}: the result cannot be unpickled here: {error!r}; install its class here, or return plain values", index=index
        )
        told.__cause__ = error
        return Outcome(index, error=told)


def _exception(text: str | None) -> BaseException | None:
    """Return the exception that the function raised. None when its class cannot be imported in this process."""
    if text is None:
        return None
    try:
        found = pickle.loads(base64.b64decode(text))  # noqa: S301 - the seal of its message was verified
    except Exception:  # noqa: BLE001 - the class cannot be imported or unpickled: the text remains
        return None
    return found if isinstance(found, BaseException) else None
