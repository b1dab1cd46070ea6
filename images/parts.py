"""Divides what is installed into what all images share and what one service adds. The Dockerfile runs it; it needs only Python.

`python parts.py lock PART` prints the part of requirements.lock that PART adds; `shared` is what all services load.
`python parts.py divide FOLDER` moves each service's own package from FOLDER/shared to FOLDER/PART.
`python parts.py finish FOLDER…` makes each folder small, and compiles its modules as those of /opt/pyroclast.
"""

import compileall
import re
import struct
import sys
from pathlib import Path

PARTS = {
    "admission": (),
    "board": ("jinja2", "markupsafe"),
    "job-controller": (),
    "jobflow-controller": (),
    "recorder": (
        *("aiosqlite", "alembic", "asyncpg", "greenlet", "mako", "markupsafe", "sqlalchemy"),
        *("apprise", "click", "markdown", "oauthlib", "requests-oauthlib"),
    ),
    "scheduler": ("numpy",),
}
"""The packages that a service loads beside those that all services load."""
LEFT_OUT = ("kubernetes-asyncio", "python-dateutil", "six")
"""Packages for the credentials of people's kubeconfigs. A pod has a token of its own."""
_INSTALLED = "/opt/pyroclast"
_LOAD = 1  # the type of program headers whose bytes the loader maps


def locked(part: str, lock: str) -> str:
    """Return the entries of a lock file, each with its hashes, that belong to `part`."""
    entries = re.split(r"\n(?=\S)", lock.strip())
    others = {*LEFT_OUT, *(name for names in PARTS.values() for name in names)}
    names = {entry: re.split(r"[=\s]", entry, maxsplit=1)[0] for entry in entries}
    kept = [entry for entry, name in names.items() if (name in PARTS[part] if part in PARTS else name not in others)]
    return "".join(f"{entry}\n" for entry in kept)


def divide(folder: Path) -> None:
    """Move each service's package out of what is shared."""
    shared = folder / "shared"
    for part in PARTS:
        (package,) = shared.glob(f"lib/python3*/site-packages/pyroclast_{part.replace('-', '_')}")
        place = folder / part / package.relative_to(shared)
        place.parent.mkdir(parents=True, exist_ok=True)
        package.rename(place)


def finish(folder: Path) -> None:
    """Remove the debug sections of libraries, and compile the modules with the paths that they have in an image."""
    for library in folder.rglob("*.so"):
        strip(library)
    compileall.compile_dir(folder, quiet=1, stripdir=str(folder), prependdir=_INSTALLED)


def strip(library: Path) -> None:
    """Cut a library of ELF behind its last mapped byte: there are only sections for debuggers and linkers.

    Nothing changes in a file that is not a little-endian ELF of 64 bits.
    """
    data = bytearray(library.read_bytes())
    if data[:6] != b"\x7fELF\x02\x01":
        return
    (start,) = struct.unpack_from("<Q", data, 0x20)
    size, count = struct.unpack_from("<HH", data, 0x36)
    headers = [struct.unpack_from("<IIQQQQ", data, start + index * size) for index in range(count)]
    end = max([start + size * count, *(offset + length for kind, _, offset, _, _, length in headers if kind == _LOAD)])
    struct.pack_into("<Q", data, 0x28, 0)  # no section headers
    struct.pack_into("<HHH", data, 0x3A, 0, 0, 0)
    library.write_bytes(data[:end])


def main(command: str, *names: str) -> None:
    """Run one command."""
    if command == "lock":
        sys.stdout.write(locked(names[0], Path("requirements.lock").read_text()))
    elif command == "divide":
        divide(Path(names[0]))
    else:
        for name in names:
            finish(Path(name))


if __name__ == "__main__":
    main(*sys.argv[1:])
