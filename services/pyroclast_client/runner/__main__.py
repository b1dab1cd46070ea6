"""Runs one function of a Job in its pod. Writes the result, or the reason for the failure, where the client reads it."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import pickle
import signal
import sys
import time
import zlib
from collections.abc import Callable, Coroutine, Mapping, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyroclast_client.runner import sealing
else:
    import sealing  # the module is beside this file in the archive

FAILED = 1
UNLOADABLE = 70
RESERVED = (sealing.UNPICKLABLE, UNLOADABLE, sealing.TIMED_OUT)
"""The meanings that policies give to exit statuses. A function that exits with one of them has failed."""
MOST_TRACEBACK = 20000
MOST_PICKLED = 500_000
GRACE = 30

if TYPE_CHECKING:
    Call = Callable[..., Any]


class Run:
    """One run of a function: the folder at which the Secret is mounted, and the environment variables."""

    def __init__(self, folder: str, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.index = int(environment.get("PYROCLAST_INDEX") or 0)
        self.attempt = environment.get("PYROCLAST_POD_UID", "")
        self.round = int(environment.get("VC_FLOW_ITEM") or 0)
        self.name = environment.get("PYROCLAST_PAYLOAD") or "payload"
        self.timeout = float(environment.get("PYROCLAST_TIMEOUT") or 0)
        self.began = time.monotonic()
        self.told = environment.get("PYROCLAST_TERMINATION_LOG", "/dev/termination-log")
        self.key = self._file("key")
        self.header, self.blobs = unpacked(self._carried(self.name))

    def _carried(self, name: str) -> bytes:
        """Return a part of the sent data. The store has large parts, the Secret small parts and the digests of large ones."""
        if os.path.exists(os.path.join(self.folder, name)):
            return self._file(name)
        where = json.loads(self._file(name + ".json"))
        payload = sealing.got(where["store"], where["name"])
        if payload is None:
            sys.exit(f"the code of this Job is not in the store {where['store']} any more")
        if hashlib.sha256(payload).hexdigest() != where["sha256"]:
            sys.exit(f"{where['name']} in the store {where['store']} is not what was sent and does not run; submit the Job again")
        return payload

    def _file(self, name: str) -> bytes:
        with open(os.path.join(self.folder, name), "rb") as file:
            return file.read()

    def modules(self) -> bytes | None:
        """Return the archive of the project's modules, which the entries of a flow share. None without modules."""
        shared = self.header.get("shared_modules")
        return zlib.decompress(self._carried(shared)) if shared else self.blob("modules")

    def blob(self, name: str) -> bytes | None:
        """Return a part of the payload. None when the payload has no part of that name."""
        place = self.header.get(name)
        return None if place is None else self.blobs[place[0] : place[0] + place[1]]

    def arguments(self) -> bytes:
        """Return the pickled arguments of this index."""
        places = self.header["arguments"]
        number = self.round if self.header.get("rounds") else self.index
        start, length = places[number if len(places) > 1 else 0]
        return self.blobs[start : start + length]

    def finish(self, kind: str, encoding: str, payload: bytes, value: object = None) -> None:
        """Write the result to the termination message, the log or the store, depending on its size.

        `value`: what conditions of the flow may read; see `sealing.shown`.
        """
        store, place = str(self.header.get("store") or ""), "inline"
        if len(payload) > sealing.INLINE_BYTES:
            place = "log"
        if len(payload) > sealing.LOG_BYTES:
            place = "store" if store else "none"
            kind = kind if store else "too-large"
        if place == "store":
            sealing.put(store, self.stored("result"), payload)
        sys.stdout.flush()
        sys.stderr.flush()
        if place == "log":
            sys.stdout.write("".join(line + "\n" for line in sealing.frames(payload)))
            sys.stdout.flush()
        message = sealing.sealed(self.key, kind, encoding, place, self.index, self.attempt, payload)
        if extra := sealing.shown(value):
            message = json.dumps({**json.loads(message), **extra}, separators=(",", ":"))
        with open(self.told, "w") as file:
            file.write(message)

    def stored(self, name: str) -> str:
        """Return the name under which the store contains bytes of this run."""
        return f"{self.header['submission']}/{self.index}/{self.attempt}/{name}"

    def keep(self, payload: bytes) -> None:
        """Store the value of a flow entry for the entries after it."""
        text = sealing.sealed(self.key, "value", self.header["serializer"], "store", self.round, self.header["entry"], payload)
        sealing.put(self.header["store"], self.value_name(self.header["entry"], self.round), text.encode() + b"\n" + payload)

    def value_of(self, entry: str, number: int) -> Any:
        """Return the value of another entry, or of one round of its loop."""
        kept = sealing.got(self.header["store"], self.value_name(entry, number))
        if kept is None:
            raise LookupError(f"the value of entry {entry} is not in the store {self.header['store']}")
        text, _, data = kept.partition(b"\n")
        message = sealing.opened(self.key, text.decode(), number, entry)
        payload = sealing.content(message, data)
        return json.loads(payload) if message["encoding"] == "json" else pickle.loads(payload)  # noqa: S301 - its seal was verified

    def value_name(self, entry: str, number: int) -> str:
        """Return the name in the store for the value of an entry."""
        return f"{self.header['submission']}/entries/{entry}/{number}/value"

    def checkpoint_name(self) -> str:
        """Return the name in the store for the checkpoint of this index. The checkpoint stays when the pod is deleted."""
        return f"{self.header['submission']}/{self.index}/checkpoint"


def unpacked(payload: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the header and the blobs of a payload."""
    raw = zlib.decompress(payload)
    length = int.from_bytes(raw[:4], "big")
    return json.loads(raw[4 : 4 + length]), raw[4 + length :]


def main() -> int:
    """Run the function. Return the exit status."""
    run = Run(os.path.dirname(os.path.realpath(sys.argv[0])), os.environ)
    # the first process of a container has no default signal handlers
    signal.signal(signal.SIGTERM, lambda *_: ended(run))
    if run.timeout:
        import threading  # noqa: PLC0415 - what few calls need is loaded late, as each start of a pod waits for it

        timer = threading.Timer(run.timeout, time_out, (run,))
        timer.daemon = True
        timer.start()
    if "VC_SIGNAL" in os.environ and "VC_SIGNAL_BY" not in os.environ:  # kubelet sends no signal but TERM
        signal_before_end(os.environ, time.time())
    here = list(sys.version_info[:2])
    if run.header["python"] != here:
        run.finish("mismatch", "json", json.dumps({"here": here, "wanted": run.header["python"]}).encode())
        return UNLOADABLE
    others: list[str] = []
    try:
        install(str(run.header.get("requirements") or ""))
        others = other_packages(run.header["packages"])
        for each in others:
            sys.stderr.write(f"pyroclast: {each}\n")
        function, arguments, keywords = load(run)
    except BaseException as error:  # noqa: BLE001 - the client gets any exception of an import
        import traceback  # noqa: PLC0415 - see above

        run.finish("unloadable", "json", described(error, skip=1, packages=others))
        traceback.print_exc()
        return UNLOADABLE
    return call(run, function, arguments, keywords)


def signal_before_end(environment: Mapping[str, str], now: float) -> None:
    """Start a timer for the signal that the Job asks for before its end, unless the time for that is over."""
    import calendar  # noqa: PLC0415 - few Jobs ask for a signal
    import threading  # noqa: PLC0415

    ends = [now + float(environment["VC_MAX_RUN_SECONDS"])] if environment.get("VC_MAX_RUN_SECONDS") else []
    if environment.get("VC_ENDS_AT"):
        ends.append(calendar.timegm(time.strptime(environment["VC_ENDS_AT"], "%Y-%m-%dT%H:%M:%SZ")))
    number = getattr(signal, "SIG" + environment["VC_SIGNAL"])
    pause = min(ends) - float(environment.get("VC_SIGNAL_SECONDS") or 0) - now
    if pause > 0:
        timer = threading.Timer(pause, os.kill, (os.getpid(), number))
        timer.daemon = True
        timer.start()


def ended(run: Run) -> None:
    """End on SIGTERM: of a call that is over its timeout for good, of any other so that it may run again."""
    if run.timeout and time.monotonic() - run.began >= run.timeout:
        time_out(run)
    sys.exit(sealing.REQUEUED)


def time_out(run: Run) -> None:
    """Report that the call is over its timeout, and end the process, in whatever the function is busy."""
    run.finish("timeout", "json", json.dumps({"seconds": run.timeout}).encode())
    os._exit(sealing.TIMED_OUT)


def other_packages(wanted: Mapping[str, str]) -> list[str]:
    """Return a sentence for each package that the image lacks, or has in another version than the client."""
    if not wanted:
        return []
    import importlib.metadata  # noqa: PLC0415 - few functions need it

    found = []
    for name, version in wanted.items():
        try:
            here = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found.append(f"the image lacks {name} {version}")
            continue
        if here != version:
            found.append(f"the image has {name} {here} and the client {version}")
    return found


def install(requirements: str) -> None:
    """Make packages importable. Their folder is named by their digest, so that each node or claim installs them once."""
    if not requirements:
        return
    import fcntl  # noqa: PLC0415 - see above
    import shutil  # noqa: PLC0415 - see above
    import subprocess  # noqa: PLC0415 - see above
    from pathlib import Path  # noqa: PLC0415 - see above

    place = Path(os.environ.get("PYROCLAST_PACKAGES") or "~/.cache/pyroclast/packages").expanduser()
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = place / hashlib.sha256(f"{sys.version} {requirements}".encode()).hexdigest()
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            draft = Path(f"{folder}.new")
            shutil.rmtree(draft, ignore_errors=True)
            file = Path(f"{folder}.txt")
            file.write_text(requirements)
            uv = shutil.which("uv")
            pip = [uv, "pip", "install", "--python", sys.executable] if uv else [sys.executable, "-m", "pip", "install"]
            subprocess.run([*pip, "--quiet", "--target", str(draft), "-r", str(file)], stdin=subprocess.DEVNULL, check=True)  # noqa: S603 - what the Job's owner sent
            draft.replace(folder)
    sys.path.insert(0, str(folder))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))


def load(run: Run) -> tuple[Call, tuple[Any, ...], dict[str, Any]]:
    """Return the function and its arguments, from the checkpoint if there is one."""
    sys.path.append(os.path.realpath(sys.argv[0]) + "/standin")
    modules = run.modules()
    if modules is not None:
        import tempfile  # noqa: PLC0415 - see above
        import zipfile  # noqa: PLC0415 - see above

        folder = tempfile.mkdtemp(prefix="pyroclast-")
        with zipfile.ZipFile(io.BytesIO(modules)) as archive:
            archive.extractall(folder)
        sys.path.insert(0, folder)
        if run.header.get("has_files"):  # which the function opens by their paths below the project's root
            os.chdir(folder)
    function = pickle.loads(run.blob("function") or b"")  # noqa: S301 - the runner runs what the Job's owner sent
    arguments, keywords = Arguments(io.BytesIO(run.arguments()), run).load()
    if run.header.get("checkpoint"):
        function, checkpoint = function
    if function is None:  # of an executor, of which each call brings its function
        function, (arguments, keywords) = map(pickle.loads, arguments)
    if run.header.get("checkpoint"):
        function, arguments, keywords = restored(run, function, arguments, keywords)
        signal.signal(signal.SIGTERM, lambda *_: save(run, checkpoint, function, arguments, keywords))
    return function, arguments, keywords


class Arguments(pickle.Unpickler):
    """An unpickler that inserts the values of other flow entries in place of references."""

    def __init__(self, file: io.BytesIO, run: Run) -> None:
        super().__init__(file)
        self._run = run

    def persistent_load(self, reference: Any) -> Any:
        """Return the value of a reference: of an entry, of all rounds of a loop, or of an item."""
        kind, entry, number = reference
        if kind == "rounds":
            return [self._run.value_of(entry, each) for each in range(number)]
        value = self._run.value_of(entry, 0)
        return value[number] if kind == "item" else value


def restored(
    run: Run, function: Call, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[Call, tuple[Any, ...], dict[str, Any]]:
    """Return the function and arguments to call. A checkpoint of an earlier pod of this index replaces them."""
    payload = sealing.got(run.header["store"], run.checkpoint_name())
    if payload is None:
        return function, arguments, keywords
    text, _, data = payload.partition(b"\n")
    try:
        message = sealing.opened(run.key, text.decode(errors="replace"), run.index, "checkpoint")
        kept = pickle.loads(sealing.content(message, data))  # noqa: S301 - its seal was verified
    except sealing.SealError as error:  # of an earlier Job of this name, or of somebody else: it must not stop this one
        sys.stderr.write(f"pyroclast: starting anew, as the checkpoint in the store is not of this Job: {error}\n")
        return function, arguments, keywords
    sys.stderr.write("pyroclast: starting from the checkpoint of an earlier pod\n")
    if callable(kept):
        return kept, arguments, keywords
    if isinstance(kept, dict):
        return function, arguments, dict(keywords, **kept)
    return function, kept if isinstance(kept, tuple) else (kept,), keywords


def save(run: Run, checkpoint: Any, function: Call, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    """On SIGTERM, store a checkpoint for the next pod of this index, and exit."""
    import cloudpickle  # noqa: PLC0415 - only for results and checkpoints

    asked = getattr(function, "checkpoint") if checkpoint == "method" else checkpoint
    left = {"seconds_left": float(os.environ.get("PYROCLAST_GRACE") or GRACE)} if takes(asked, "seconds_left") else {}
    kept = asked(*arguments, **{**keywords, **left})
    data = cloudpickle.dumps(kept)
    text = sealing.sealed(run.key, "value", "pickle", "store", run.index, "checkpoint", data)
    sealing.put(run.header["store"], run.checkpoint_name(), text.encode() + b"\n" + data)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(RuntimeError):  # the signal arrived while the function printed: that line may be lost
            stream.flush()
    os.write(2, f"pyroclast: a checkpoint of {len(data)} bytes is kept\n".encode())
    os._exit(sealing.REQUEUED)


def takes(function: Call, name: str) -> bool:
    """Whether a function has a parameter of that name."""
    import inspect  # noqa: PLC0415 - see above

    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):  # a function in C without a signature
        return False


def call(run: Run, function: Call, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> int:
    """Call the function, with as many tries as are allowed in this pod."""
    tries = int(run.header.get("tries", 1))
    for number in range(tries):
        try:
            value = function(*arguments, **keywords)
            if isinstance(value, Coroutine):
                import asyncio  # noqa: PLC0415 - see above

                value = asyncio.run(value)
        except BaseException as error:
            if isinstance(error, SystemExit) and error.code == sealing.REQUEUED:
                raise
            import traceback  # noqa: PLC0415 - see above

            traceback.print_exception(type(error), error, error.__traceback__)
            if number + 1 < tries:
                sys.stderr.write(f"pyroclast: trying again, {number + 2} of {tries}\n")
                continue
            run.finish("error", "json", described(error, skip=1))
            return exit_code(error)
        break
    try:
        payload = encoded(run.header["serializer"], value)
    except Exception as error:  # noqa: BLE001 - the client gets it; the function itself succeeded and does not run again
        import traceback  # noqa: PLC0415 - see above

        traceback.print_exc()
        run.finish("unpicklable", "json", described(error, skip=1))
        return sealing.UNPICKLABLE
    if run.header.get("entry") and run.header.get("store") and run.index == 0:
        run.keep(payload)
    run.finish("value", run.header["serializer"], payload, value if run.header.get("entry") else None)
    return 0


def encoded(serializer: str, value: object) -> bytes:
    """Return the function's value as bytes. Only what pickle cannot write, or finds in this module, needs cloudpickle."""
    if serializer == "json":
        return json.dumps(value).encode()
    with contextlib.suppress(Exception):
        data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        if b"__main__" not in data:
            return data
    import cloudpickle  # noqa: PLC0415 - its import takes as long as the start of the interpreter

    return bytes(cloudpickle.dumps(value))


def exit_code(error: BaseException) -> int:
    """Return the exit status for an exception: the code of SystemExit unless it is reserved, otherwise 1."""
    if isinstance(error, SystemExit):
        code = error.code
        return 0 if code is None else code if isinstance(code, int) and code not in RESERVED else FAILED
    return FAILED


def described(error: BaseException, skip: int, packages: Sequence[str] = ()) -> bytes:
    """Return an exception as JSON: its class, message, traceback without the runner's frames, and its pickle if possible."""
    import base64  # noqa: PLC0415 - see above
    import traceback  # noqa: PLC0415 - see above

    trace = error.__traceback__
    for _ in range(skip):
        trace = trace.tb_next if trace is not None else None
    text = "".join(traceback.format_exception(type(error), error, trace))
    told: dict[str, Any] = {
        "type": type(error).__name__,
        "message": str(error)[:MOST_TRACEBACK],
        "traceback": text[-MOST_TRACEBACK:],
        "pickle": None,
        "packages": list(packages),
    }
    with contextlib.suppress(Exception):  # an exception that cannot be pickled is described by its text
        import cloudpickle  # noqa: PLC0415 - only for results and checkpoints

        pickled = cloudpickle.dumps(error.with_traceback(None))
        if len(pickled) > MOST_PICKLED:  # without what it carries, so that the type at least arrives
            pickled = cloudpickle.dumps(type(error)(*(each for each in error.args if isinstance(each, (str, int, float)))))
        if len(pickled) <= MOST_PICKLED:
            told["pickle"] = base64.b64encode(pickled).decode()
    return json.dumps(told).encode()


if __name__ == "__main__":
    sys.exit(main())
