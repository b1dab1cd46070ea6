"""Results on their way to the client: sealed by HMAC, in a termination message, in frames of a log, or in a store.

This module also runs in pods, so it uses only the standard library. A seal binds the content, its kind and its place to the key
of the Job, to the index, and to the UID of the pod. Without the key, nobody can create a result or substitute one for another.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import math
import os
import re
from collections.abc import Iterable

TYPE_CHECKING = False
if TYPE_CHECKING:  # the import of `typing` would double the time in which a pod starts
    from pathlib import Path
    from typing import Any

INLINE_BYTES = 2048
"""A result up to this size in bytes is in the termination message. Kubelets keep 4,096 bytes of a termination message."""

SHOWN_CHARACTERS = 256
"""A longer value of a function is not shown to the conditions of a flow."""

LOG_BYTES = 1 << 20
"""A result up to this size in bytes is at the end of the log."""

FRAME = "\x1epyroclast "
FRAME_CHARACTERS = 8000
VERSION = 1

UNPICKLABLE = 65
"""Exit status: the function returned what cannot be sent. Another try would repeat its effects and end in the same way."""

REQUEUED = 75
"""Exit status: the pod was asked to end from outside, or its function asks for it, and the call may run again."""

TIMED_OUT = 124
"""Exit status: the call ran longer than its timeout."""

CLAIM = "pvc://"
"""The prefix of the URL of a store in a PersistentVolumeClaim."""

CLAIMS = "PYROCLAST_CLAIMS"
"""Environment variable with the mount points of claims: `CLAIM=/folder`, separated by commas."""

FIELDS = ("v", "kind", "encoding", "place", "index", "attempt", "size", "sha256")
KINDS = ("value", "error", "mismatch", "unloadable", "unpicklable", "timeout", "too-large")


class NotMounted(Exception):
    """The store is in a claim that this machine does not mount."""


class SealError(Exception):
    """The result does not have the seal, or differs from the result that was sealed."""


def shown(value: Any) -> dict[str, Any]:
    """Return the part of a message that conditions of flows can read: the value, if it is a short scalar.

    The seal does not cover this part, and no client reads it.
    """
    is_scalar = value is not None and type(value) in {bool, int, float, str}
    if not is_scalar or len(str(value)) > SHOWN_CHARACTERS or (type(value) is float and not math.isfinite(value)):
        return {}
    return {"value": value}


def sealed(key: bytes, kind: str, encoding: str, place: str, index: int, attempt: str, payload: bytes) -> str:
    """Return the sealed message about `payload`. The message contains the payload if the place is `inline`.

    Args:
        key: the key of the Job.
        kind: one of KINDS.
        encoding: `pickle` or `json`.
        place: `inline`, `log`, `store` or `none`.
        index: the index of the pod in its task.
        attempt: the UID of the pod.
        payload: the content.
    """
    values = (VERSION, kind, encoding, place, index, attempt, len(payload), hashlib.sha256(payload).hexdigest())
    message: dict[str, Any] = dict(zip(FIELDS, values))
    message["mac"] = _mac(key, message)
    if place == "inline":
        message["data"] = base64.b64encode(payload).decode()
    return json.dumps(message, separators=(",", ":"))


def opened(key: bytes, text: str, index: int, attempt: str) -> dict[str, Any]:
    """Return the message in `text` after its seal was verified for this index and pod.

    Raises:
        SealError: the text has no message, or the seal is wrong.
    """
    try:
        message: dict[str, Any] = json.loads(text)
        given = str(message["mac"])
        expected = _mac(key, message)
    except (KeyError, TypeError, ValueError) as error:
        raise SealError("there is no sealed message") from error
    if not hmac.compare_digest(expected, given):
        raise SealError("the seal is not that of the Job")
    if (message["v"], message["index"], message["attempt"]) != (VERSION, index, attempt):
        raise SealError("the seal is of another index or pod")
    return message


def content(message: dict[str, Any], payload: bytes) -> bytes:
    """Return `payload` after it was verified against the message.

    Raises:
        SealError: the payload differs from the sealed content.
    """
    if len(payload) != message["size"] or hashlib.sha256(payload).hexdigest() != message["sha256"]:
        raise SealError("the content is not what was sealed")
    return payload


def inline(message: dict[str, Any]) -> bytes:
    """Return the result in a message whose place is `inline`."""
    try:
        return content(message, base64.b64decode(message.get("data", ""), validate=True))
    except (TypeError, binascii.Error) as error:
        raise SealError("the content is not base64") from error


def frames(payload: bytes) -> list[str]:
    """Return the frames (lines of the pod log) over which `payload` is divided."""
    text = base64.b64encode(payload).decode()
    parts = [text[start : start + FRAME_CHARACTERS] for start in range(0, len(text), FRAME_CHARACTERS)]
    return [f"{FRAME}{number + 1}/{len(parts)} {part}" for number, part in enumerate(parts)]


def number_of_frames(size: int) -> int:
    """Return how many frames, one line of the log each, a payload of this size in bytes needs."""
    return -(-(-(-size // 3) * 4) // FRAME_CHARACTERS)


def unframed(lines: Iterable[str]) -> bytes | None:
    """Return the payload in the last complete series of frames in `lines`. None when there is no complete series."""
    found: list[str] = []
    payload = ""
    for line in lines:
        match = re.search(FRAME + r"(\d+)/(\d+) ([A-Za-z0-9+/=]*)", line)
        if match:
            number, total, part = int(match[1]), int(match[2]), match[3]
            found = [part] if number == 1 else [*found, part] if number == len(found) + 1 else []
            if number == total and len(found) == total:
                payload = "".join(found)
    try:
        return base64.b64decode(payload, validate=True) if payload else None
    except binascii.Error:
        return None


def folder_of(store: str) -> Path | None:
    """Return the folder of a store's URL. None when the store is not in a file system of this machine.

    Raises:
        NotMounted: the store is in a claim that this machine does not mount.
    """
    from pathlib import Path  # noqa: PLC0415 - few results go to a store

    if store.startswith(CLAIM):
        claim, _, path = store[len(CLAIM) :].partition("/")
        mounts = dict(each.split("=", 1) for each in os.environ.get(CLAIMS, "").split(",") if "=" in each)
        if claim not in mounts:
            raise NotMounted(f"claim {claim} is not mounted here")
        return Path(mounts[claim]) / path
    if store.startswith("file://"):
        return Path(store[len("file://") :])
    return None if "://" in store else Path(store)


def put(store: str, name: str, payload: bytes) -> None:
    """Write `payload` into the store, completely or not at all."""
    folder = folder_of(store)
    if folder is None:
        filesystem, root = _fsspec().core.url_to_fs(store)
        path = root.rstrip("/") + "/" + name
        filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
        filesystem.pipe_file(path + ".new", payload)
        filesystem.mv(path + ".new", path)
        return
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    draft.write_bytes(payload)
    draft.replace(path)


def got(store: str, name: str) -> bytes | None:
    """Return the bytes that `put` wrote into the store. None when the store does not have them."""
    folder = folder_of(store)
    try:
        if folder is not None:
            return (folder / name).read_bytes()
        filesystem, root = _fsspec().core.url_to_fs(store)
        return bytes(filesystem.cat_file(root.rstrip("/") + "/" + name))
    except FileNotFoundError:
        return None


def _fsspec() -> Any:
    """Import the package that only stores beyond the file system need. The image needs it then too."""
    import importlib  # noqa: PLC0415 - few stores need it

    return importlib.import_module("fsspec")


def _mac(key: bytes, message: dict[str, Any]) -> str:
    text = json.dumps([message[field] for field in FIELDS], separators=(",", ":"))
    return hmac.new(key, text.encode(), "sha256").hexdigest()
