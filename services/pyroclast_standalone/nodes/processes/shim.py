"""Runs one container as a process with the mounts of its pod. Survives the nodes process that started it.

This is a separate program, started as `python -I -S shim.py SPEC`. It imports no other module of this package, so that it starts
fast and stays small. SPEC is a JSON file: argv, env, cwd, hostname, mounts ([source, target] each), isolation (`root`, `user` or
`none`), scratch (a folder), and the paths log, state and exit. The shim writes the state file (process ids, start) when the
process runs, log lines (`seconds text`), and the exit file (code, end) when the process has ended. The codes are those of a
shell: 127 not found, 126 not executable, 128 + N for signal N.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import stat
import sys
import tempfile
import time
from typing import Any, BinaryIO

NEW_NAMESPACE, NEW_HOSTNAME, NEW_USER = 0x00020000, 0x04000000, 0x10000000
BIND, RECURSIVE, PRIVATE = 0x1000, 0x4000, 0x40000
SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def main(path: str) -> None:
    """Run the container that the file `path` describes."""
    with open(path, encoding="utf-8") as file:
        spec = json.load(file)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    check(_libc.prctl(SUBREAPER, 1, 0, 0, 0), "prctl")  # orphaned processes in the container become children of the shim
    readable, writable = os.pipe()
    started_at = time.time()
    pid = os.fork()
    if pid == 0:
        os.close(readable)
        become(spec, writable)
    os.close(writable)
    write(spec["state"], {"pid": pid, "shim": os.getpid(), "started_at": started_at})
    with open(spec["log"], "ab") as log:
        code = watch(pid, readable, log)
    write(spec["exit"], {"code": code, "ended_at": time.time()})


def become(spec: dict[str, Any], output: int) -> None:
    """In the child process, start the program of the container."""
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        isolate(spec["isolation"], spec["hostname"], spec["mounts"], spec["scratch"])
        os.chdir(spec["cwd"] or "/")
        os.execvpe(spec["argv"][0], spec["argv"], spec["env"])  # noqa: S606 - it is the container's command
    except FileNotFoundError as error:
        fail(127, f'exec: "{spec["argv"][0]}": {error.strerror}')
    except PermissionError as error:
        fail(126, f'exec: "{spec["argv"][0]}": {error.strerror}')
    except OSError as error:
        fail(128, f"cannot start: {error}")


def fail(code: int, text: str) -> None:
    """In the child process, print the reason and exit with `code`."""
    os.write(2, text.encode() + b"\n")
    os._exit(code)


def watch(pid: int, readable: int, log: BinaryIO) -> int:
    """Write the output of the process into `log` until the process ends. Return its exit code."""
    ended = os.pidfd_open(pid)
    rest = b""
    is_over = False
    while True:
        ready, _, _ = select.select([readable, ended], [], [], 0 if is_over else None)
        if readable in ready:
            chunk = os.read(readable, 65536)
            if not chunk:
                break
            *lines, rest = (rest + chunk).split(b"\n")
            log.write(b"".join(b"%.6f %s\n" % (time.time(), line) for line in lines))
            log.flush()
        elif is_over:
            break  # the rest is output of a process that the container left behind
        is_over = is_over or ended in ready
    if rest:
        log.write(b"%.6f %s\n" % (time.time(), rest))
    _, status = os.waitpid(pid, 0)
    end_rest()
    return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def end_rest() -> None:
    """Kill the processes that the container's process has left behind, including daemons."""
    with contextlib.suppress(ChildProcessError):
        while True:
            if os.waitpid(-1, os.WNOHANG)[0] != 0:
                continue
            for child in children():
                os.kill(child, signal.SIGKILL)
            time.sleep(0.005)


def children() -> list[int]:
    """Return the children of this process, including zombies."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            if int(file.read().rpartition(")")[2].split()[1]) == os.getpid():
                found.append(int(pid))
    return found


def write(path: str, content: dict[str, Any]) -> None:
    """Write a small file atomically."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(content, file)
    os.replace(path + ".new", path)


def isolate(how: str, hostname: str, mounts: list[list[str]], scratch: str) -> None:
    """Give this process its own host name and mounts: each source is mounted over its target, which need not exist on the
    machine.
    """
    if how == "none":
        return
    user, group = os.getuid(), os.getgid()
    check(_libc.unshare(NEW_NAMESPACE | NEW_HOSTNAME | (NEW_USER if how == "user" else 0)), "unshare")
    if how == "user":
        put("/proc/self/setgroups", "deny")
        put("/proc/self/uid_map", f"0 {user} 1")
        put("/proc/self/gid_map", f"0 {group} 1")
    check(_libc.sethostname(hostname.encode(), len(hostname.encode())), "sethostname")
    mount("none", "/", "", RECURSIVE | PRIVATE)
    for source, target in sorted(mounts, key=lambda pair: pair[1].count("/")):
        if not os.path.exists(target):
            make_room(target, scratch, is_directory=os.path.isdir(source))
        mount(source, target, "", BIND | RECURSIVE)


def make_room(target: str, scratch: str, *, is_directory: bool) -> None:
    """Create `target` for this process only: replace its nearest existing parent by a copy made of mounts."""
    parent = os.path.dirname(target)
    while not os.path.isdir(parent):
        parent = os.path.dirname(parent)
    parent = os.path.realpath(parent)
    if not is_ours(parent):
        copy = tempfile.mkdtemp(dir=scratch)
        mount("tmpfs", copy, "tmpfs", 0)
        put(os.path.join(copy, ".pyroclast"), "")
        mirror(parent, copy)
        if parent == "/":
            os.chroot(copy)
            os.chdir("/")
        else:
            mount(copy, parent, "", BIND | RECURSIVE)
    os.makedirs(target if is_directory else os.path.dirname(target), exist_ok=True)
    if not is_directory:
        put(target, "")


def is_ours(folder: str) -> bool:
    """Return whether a folder is in such a copy already, so that files created in it do not change the machine."""
    while folder != "/":
        if os.path.exists(os.path.join(folder, ".pyroclast")):
            return True
        if os.path.ismount(folder):
            return False
        folder = os.path.dirname(folder)
    return os.path.exists("/.pyroclast")


def mirror(folder: str, copy: str) -> None:
    """Bind every entry of `folder` into `copy`."""
    for name in os.listdir(folder):
        source, target = os.path.join(folder, name), os.path.join(copy, name)
        try:
            mode = os.lstat(source).st_mode
            if stat.S_ISLNK(mode):
                os.symlink(os.readlink(source), target)
            elif stat.S_ISDIR(mode):
                os.mkdir(target)
                mount(source, target, "", BIND | RECURSIVE)
            else:
                put(target, "")
                mount(source, target, "", BIND)
        except OSError:
            continue  # the entry is not accessible or was just removed: the container does not have it


def mount(source: str, target: str, kind: str, flags: int) -> None:
    """Mount one file system or path."""
    check(_libc.mount(source.encode(), target.encode(), kind.encode() or None, flags, None), f"mount {target}")


def check(result: int, what: str) -> None:
    """Raise OSError unless a call of the C library returned 0. `what` is the name of the call."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def put(path: str, text: str) -> None:
    """Write a file."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main(sys.argv[1])
