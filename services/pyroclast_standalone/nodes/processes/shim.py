"""Runs one container as a process with the mounts of its pod. Survives the nodes process that started it.

This is a separate program, started as `python -I -S shim.py SPEC`. It imports no other module of this package, so that it starts
fast and stays small. SPEC is a file of marshal: argv, env, cwd, hostname, mounts, isolation (`root`, `user` or `none`), scratch
(a folder), and the paths log, state and exit. A mount is a source, a target, and a path below the source that the account must
reach. The account is uid, gid and groups, or null for that of this process. Groups are folders of control groups; without them
SPEC has memory_limit and cpus. With `attached` (`terminal` or `pipes`), the command has the streams of the shim, and no log.

The shim writes the state file (process ids, start) when the process runs, log lines (`seconds text`), and the exit file (code,
end, reason) when the process has ended. The codes are those of a shell: 127 not found, 126 not executable, 128 + N for signal N.
"""

from __future__ import annotations

import ctypes
import fcntl
import marshal
import os
import select
import stat
import sys
import termios
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Any
else:  # each start of a container waits for what is imported: contextlib, json and signal take as long as all the rest
    import _signal as signal

NEW_NAMESPACE, NEW_HOSTNAME, NEW_USER = 0x00020000, 0x04000000, 0x10000000
BIND, RECURSIVE, PRIVATE = 0x1000, 0x4000, 0x40000
SUBREAPER, NO_NEW_PRIVILEGES = 36, 38
MOST_LOG_BYTES, MOST_LINE_BYTES = 50 * 1024 * 1024, 1024 * 1024  # as much as a kubelet keeps: five files of 10 MiB
SAMPLE_SECONDS = 0.1
_libc = ctypes.CDLL(None, use_errno=True)


class Suppressed:
    """Suppression of exceptions, as by `contextlib.suppress`."""

    def __init__(self, *kinds: type[BaseException]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, self._kinds)


def main(path: str) -> None:
    """Run the container that the file `path` describes."""
    with open(path, "rb") as file:
        spec = marshal.load(file)  # noqa: S302 - the nodes process wrote it
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
    if spec["attached"]:
        for number in range(3):  # the last to close them must be the command
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
    write(spec["state"], f'{{"pid": {pid}, "shim": {os.getpid()}, "started_at": {started_at}}}')
    code, is_over_limit = watch(pid, readable, spec["log"], spec.get("memory_limit"))
    is_over_limit = is_over_limit or any(killed(group) for group in spec["groups"])
    reason = "OOMKilled" if is_over_limit else ""
    write(spec["exit"], f'{{"code": {code}, "ended_at": {time.time()}, "reason": "{reason}"}}')
    for group in spec["groups"] if spec["owns_groups"] else ():
        with Suppressed(OSError):  # the next sweep of the nodes removes it
            os.rmdir(group)


def become(spec: dict[str, Any], output: int) -> None:
    """In the child process, start the program of the container."""
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        if not spec["attached"]:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
        elif spec["attached"] == "terminal":
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for group in spec["groups"]:
            put(os.path.join(group, "cgroup.procs"), "0")
        if spec.get("cpus"):
            os.sched_setaffinity(0, fewer(spec["cpus"]))
        try:
            isolate(spec["isolation"], spec["hostname"], spec["mounts"], spec["scratch"], spec["account"])
        except OSError as error:
            fail(128, f"cannot start: {error.strerror}")
        if spec["account"]:
            uid, gid, groups = spec["account"]
            os.fchown(1, uid, gid)  # so that the program may open /dev/stdout
            os.setgroups(groups)
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            check(_libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0), "prctl")  # it can mount files over those that su and sudo believe
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


def watch(pid: int, readable: int, log_file: str, memory_limit: int | None) -> tuple[int, bool]:
    """Write the output of the process into `log_file` until the process ends, in two files of half of MOST_LOG_BYTES.

    With `memory_limit` in bytes, add up the memory of the container's processes and kill them above it.

    Returns:
        the exit code, and whether the processes were killed for their memory.
    """
    ended = os.pidfd_open(pid)
    rest = b""
    is_over = is_over_limit = False
    log = open(log_file, "ab")  # noqa: SIM115 - a rotation replaces it
    while True:
        period = None if memory_limit is None else SAMPLE_SECONDS
        ready, _, _ = select.select([readable, ended], [], [], 0 if is_over else period)
        if memory_limit is not None and not is_over_limit and memory() > memory_limit:
            is_over_limit = True
            for process in descendants():
                with Suppressed(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        if readable in ready:
            chunk = os.read(readable, 65536)
            if not chunk:
                break
            *lines, rest = (rest + chunk).split(b"\n")
            log.write(b"".join(b"%.6f %s\n" % (time.time(), line) for line in lines))
            log.flush()
            if log.tell() > MOST_LOG_BYTES // 2:
                log.close()
                os.replace(log_file, log_file + ".1")
                log = open(log_file, "ab")  # noqa: SIM115 - see above
            if len(rest) > MOST_LINE_BYTES:  # a program that writes no line ends
                log.write(b"%.6f %s\n" % (time.time(), rest))
                rest = b""
        elif is_over:
            break  # the rest is output of a process that the container left behind
        is_over = is_over or ended in ready
    if rest:
        log.write(b"%.6f %s\n" % (time.time(), rest))
    log.close()
    _, status = os.waitpid(pid, 0)
    end_rest()
    return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status), is_over_limit


def killed(group: str) -> bool:
    """Return whether the kernel has killed a process of this control group for its memory."""
    for name in ("memory.events", "memory.oom_control"):
        with Suppressed(OSError), open(os.path.join(group, name), encoding="ascii") as file:
            return any(line.startswith("oom_kill ") and line.split()[1] != "0" for line in file)
    return False


def memory() -> int:
    """Return how many bytes of memory the container's processes use; shared pages count in each of them."""
    pages = 0
    for pid in descendants():
        with Suppressed(OSError), open(f"/proc/{pid}/statm", encoding="ascii") as file:
            resident, shared = file.read().split()[1:3]
            pages += int(resident) - int(shared)
    return pages * os.sysconf("SC_PAGE_SIZE")


def fewer(count: int) -> list[int]:
    """Return `count` of the processors of this process, chosen by its id, so that containers do not all share the first."""
    usable = sorted(os.sched_getaffinity(0))
    begin = os.getpid() % len(usable)
    return [*usable[begin:], *usable[:begin]][:count]


def end_rest() -> None:
    """Kill the processes that the container's process has left behind, including daemons."""
    with Suppressed(ChildProcessError):
        while True:
            if os.waitpid(-1, os.WNOHANG)[0] != 0:
                continue
            for child in children():
                os.kill(child, signal.SIGKILL)
            time.sleep(0.005)


def children() -> list[int]:
    """Return the children of this process, including zombies."""
    return parents().get(os.getpid(), [])


def descendants() -> list[int]:
    """Return all processes of the container."""
    by_parent = parents()
    found = list(by_parent.get(os.getpid(), []))
    for pid in found:  # grows meanwhile
        found += by_parent.get(pid, [])
    return found


def parents() -> dict[int, list[int]]:
    """Return the processes of the machine by their parent."""
    found: dict[int, list[int]] = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with Suppressed(OSError), open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            found.setdefault(int(file.read().rpartition(")")[2].split()[1]), []).append(int(pid))
    return found


def write(path: str, content: str) -> None:
    """Write a small file atomically."""
    put(path + ".new", content)
    os.replace(path + ".new", path)


def isolate(how: str, hostname: str, mounts: list[list[Any]], scratch: str, account: list[Any] | None) -> None:
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
    reached = [(reach(source, below, account) if below else source, target) for source, target, below in mounts]
    for source, target in sorted(reached, key=lambda pair: pair[1].count("/")):
        if not os.path.exists(target):
            make_room(target, scratch, is_directory=os.path.isdir(source))
        mount(source, target, "", BIND | RECURSIVE)


def reach(source: str, below: str, account: list[Any] | None) -> str:
    """Return a path that leads to `below` under `source`, found and if necessary made with the rights of `account` alone."""
    uid, gid, groups = account or (os.geteuid(), os.getegid(), os.getgroups())
    here = os.open(source, os.O_PATH)
    own = os.getgroups()
    os.setgroups(groups)
    os.setegid(gid)
    os.seteuid(uid)
    try:
        try:
            return f"/proc/self/fd/{os.open(below, os.O_PATH, dir_fd=here)}"
        except FileNotFoundError:
            for part in below.split("/"):
                with Suppressed(FileExistsError):
                    os.mkdir(part, dir_fd=here)
                here = os.open(part, os.O_PATH, dir_fd=here)
            return f"/proc/self/fd/{here}"
    except OSError as error:
        raise OSError(error.errno, f"volume {below}: {error.strerror}") from None
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(own)


def make_room(target: str, scratch: str, *, is_directory: bool) -> None:
    """Create `target` for this process only: replace its nearest existing parent by a copy made of mounts."""
    parent = os.path.dirname(target)
    while not os.path.isdir(parent):
        parent = os.path.dirname(parent)
    parent = os.path.realpath(parent)
    if not is_ours(parent):
        import tempfile  # noqa: PLC0415 - few targets do not exist

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
