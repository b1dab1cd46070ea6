"""The payload of a Job: functions and arguments, pickled by value and compressed, in a Secret or in a store if they are large."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import io
import json
import marshal
import pickle
import pickletools
import re
import secrets
import sys
import zipfile
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import cloudpickle

from pyroclast_client import runner
from pyroclast_client.errors import Usage
from pyroclast_client.modules import EPOCH
from pyroclast_client.runner import sealing

CARRIED: Final = frozenset({"cloudpickle", "pyroclast", "pyroclast_client"})  # the runner contains these packages
_SEARCHED_BYTES: Final = 256 << 10  # larger pickles are not searched: most of their content is data


def used_packages(pickles: Iterable[bytes]) -> dict[str, str]:
    """Return the versions of the distributions whose modules the pickles name."""
    searched = (step for each in pickles if len(each) <= _SEARCHED_BYTES for step in pickletools.genops(each))
    found = {text.partition(".")[0] for _, text, _ in searched if isinstance(text, str)}
    tops = {top for top in found if top in sys.modules and top not in sys.stdlib_module_names | CARRIED}
    if not tops:
        return {}
    known = _distributions()
    return {name: importlib.metadata.version(name) for top in sorted(tops) for name in known.get(top, ())}


@cache
def _distributions() -> Mapping[str, Sequence[str]]:
    return importlib.metadata.packages_distributions()


_STORE: Final = re.compile(r"pvc://(?P<claim>[a-z0-9]([-a-z0-9.]*[a-z0-9])?)(?P<path>/.*)?")


def claim_of(store: str | None) -> str:
    """Return the claim of a store. The name is empty for a store outside of claims."""
    if not store or not store.startswith(sealing.CLAIM):
        return ""
    found = _STORE.fullmatch(store)
    if found is None or ".." in (found["path"] or "").split("/"):
        raise Usage(f"store: {store!r} names no claim; give `pvc://CLAIM/folder` with the name of a PersistentVolumeClaim")
    return found["claim"]


def is_elsewhere(store: str) -> bool:
    """Whether the store is in a claim that this machine does not mount."""
    try:
        sealing.folder_of(store)
    except sealing.NotMounted:
        return True
    return False


MOST_BYTES: Final = 700 << 10
"""Most bytes of payloads in a Secret. The limit of a Secret is 1 MiB, including the base64 encoding and the other fields."""

KEY_BYTES: Final = 32
UNCHECKED: Final = (1).to_bytes(4, "little") + bytes(8)
"""The header of compiled modules that are not compared with their source, after PEP 552."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call."""

    positional: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class FlowPart:
    """The additional data in the payload of a flow entry.

    Attributes:
        entry: the name of the entry in the flow, by which the store holds its values.
        is_loop: each set of arguments is for a round, not for a pod.
        reference: returns the reference that replaces the value of another entry. None for other objects.
        submission: the id of the flow's submission. Empty while the id is computed.
        modules: the name of the Secret entry with the project's modules. Empty when there are none.
    """

    entry: str
    is_loop: bool
    reference: Callable[[object], object | None]
    submission: str = ""
    modules: str = ""


@dataclass(frozen=True, slots=True)
class Payload:
    """Compressed bytes, and the id of the submission, which follows from the bytes."""

    data: bytes
    submission: str


def packed(
    function: Callable[..., Any] | None,
    arguments: Sequence[Arguments],
    *,
    name: str,
    job: str,
    tries: int = 1,
    serializer: str = "pickle",
    store: str | None = None,
    modules: bytes | None = None,
    has_files: bool = False,
    requirements: str = "",
    checkpoint: object = None,
    flow: FlowPart | None = None,
) -> Payload:
    """Return the payload of a function and its arguments: one set for all pods or one for each pod.

    `job` is the name of the Job. With `has_files`, the archive of modules has files, which are the function's working folder.
    The pods install `requirements` before they load the function.
    """
    blobs: list[bytes] = []

    def place(blob: bytes) -> list[int]:
        start = sum(map(len, blobs))
        blobs.append(blob)
        return [start, len(blob)]

    header: dict[str, Any] = {
        "python": list(sys.version_info[:2]),
        "name": name,
        "job": job,
        "serializer": serializer,
        "tries": tries,
    }
    header["store"] = store
    if has_files:
        header["has_files"] = True
    if requirements:
        header["requirements"] = requirements
    reference = flow.reference if flow is not None else None
    # in one pickle, so that both see the same variables of their module
    both = (function, checkpoint) if checkpoint is not None else function
    header["function"] = place(_pickled(both, f"function {name}" if checkpoint is None else f"function {name} or its checkpoint"))
    if modules is not None:
        header["modules"] = place(modules)
    if checkpoint is not None:
        header["checkpoint"] = True
    places, start = [], sum(map(len, blobs))
    for index, each in enumerate(arguments):
        what = f"the arguments of {name}" + (f" for index {index}" if len(arguments) > 1 else "")
        blob = _pickled((each.positional, dict(each.keywords or {})), what, reference)
        blobs.append(blob)
        places.append([start, len(blob)])
        start += len(blob)
    header["arguments"] = places
    header["packages"] = used_packages(blob for blob in blobs if blob is not modules)
    content = b"".join(blobs)
    if flow is not None:
        header |= {"entry": flow.entry, "rounds": flow.is_loop, "shared_modules": flow.modules}
    submission = sha256(json.dumps(header, sort_keys=True).encode() + content).hexdigest()[:16]
    if flow is not None and flow.submission:
        submission = flow.submission
    told = json.dumps({**header, "submission": submission}, sort_keys=True).encode()
    return Payload(zlib.compress(len(told).to_bytes(4, "big") + told + content, 6), submission)


def shared_modules(archive: bytes) -> tuple[str, bytes]:
    """Return the key and value of a Secret entry with the modules that several payloads share, so that each is stored once."""
    return f"modules-{sha256(archive).hexdigest()[:16]}", zlib.compress(archive, 6)


def secret_data(payloads: Mapping[str, bytes], store: str | None, key: bytes | None = None) -> dict[str, str]:
    """Return the data of a Secret: the runner, the key of the results, and the payloads by name.

    Large payloads are in the store. The Secret names their places and has their digests, because others may write to the store.
    """
    data = {"runner.pyz": runner_archive(), "key": key or secrets.token_bytes(KEY_BYTES)}
    size = sum(map(len, payloads.values()))
    if size <= MOST_BYTES:
        data |= payloads
    elif store:
        for label, payload in payloads.items():
            digest = sha256(payload).hexdigest()
            _uploaded(store, f"code/{digest}", payload, size)
            data[f"{label}.json"] = json.dumps({"store": store, "name": f"code/{digest}", "sha256": digest}).encode()
    else:
        told = f"functions and arguments are {size:,} bytes"
        raise Usage(
            f"{told}, more than the {MOST_BYTES:,} that a Secret takes; give the client a store: `store='file:///shared/folder'`"
        )
    return {name: b64encode(content).decode() for name, content in data.items()}


def _uploaded(store: str, name: str, payload: bytes, size: int) -> None:
    """Write a payload into the store, unless the store has just this content already."""
    try:
        if sealing.got(store, name) != payload:
            sealing.put(store, name, payload)
    except sealing.NotMounted as error:
        text = f"functions and arguments are {size:,} bytes, more than the {MOST_BYTES:,} that a Secret takes, and {error}"
        advice = f"mount it where this program runs and set {sealing.CLAIMS}=CLAIM=/folder, or read the data inside the function"
        raise Usage(f"{text}, so that they cannot go into {store}; {advice}") from error


@cache
def runner_archive() -> bytes:
    """Return `runner.pyz`: the runner with cloudpickle, so that an image only needs Python.

    The modules are compiled, so that pods do not compile them. Pods with another version of Python, which only report that, read
    the sources.
    """
    ours, theirs = Path(runner.__file__).parent, Path(cloudpickle.__file__).parent
    files = {
        "__main__.py": ours / "__main__.py",
        "sealing.py": ours / "sealing.py",
        "serving.py": ours / "serving.py",
        "standin/pyroclast_client.py": ours / "standin.py",
        "standin/pyroclast/client.py": ours / "standin.py",
        "cloudpickle/__init__.py": theirs / "__init__.py",
        "cloudpickle/cloudpickle.py": theirs / "cloudpickle.py",
    }
    contents = {"standin/pyroclast/__init__.py": b""}
    for name, path in files.items():
        contents[name] = path.read_bytes()
        if "standin" not in name:  # which few pods load
            code = compile(contents[name], name, "exec", dont_inherit=True, optimize=2)
            contents[name + "c"] = importlib.util.MAGIC_NUMBER + UNCHECKED + marshal.dumps(code)
    for name in ("cloudpickle/__init__.py", "cloudpickle/cloudpickle.py"):
        del contents[name]  # loaded only by the same version of Python
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), content, zipfile.ZIP_DEFLATED, compresslevel=9)
    return buffer.getvalue()


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """A pickler that writes references in place of the values of other entries."""

    def __init__(self, file: io.BytesIO, reference: Callable[[object], object | None]) -> None:
        super().__init__(file)
        self._reference = reference

    def persistent_id(self, value: object) -> object | None:
        """Return the reference that replaces a value. None for a value that is pickled itself."""
        return self._reference(value)


def _pickled(value: object, what: str, reference: Callable[[object], object | None] | None = None) -> bytes:
    try:
        if reference is None:
            return bytes(cloudpickle.dumps(value))
        file = io.BytesIO()
        _Pickler(file, reference).dump(value)
        return file.getvalue()
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError, ValueError, NotImplementedError) as error:
        advice = "open files, locks, sockets and modules of C inside the function instead of before it"
        raise Usage(f"{what} cannot be pickled: {error}. Make {advice}") from error
