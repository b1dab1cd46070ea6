"""A zip of the project's own modules: those loaded from files below the project's root, unless `.gitignore` excludes them.

Installed modules are not included, because the image must have them.
"""

from __future__ import annotations

import fnmatch
import io
import re
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Final, TypeAlias

from pyroclast_client.errors import Usage

FILE: Final = ".gitignore"

_PART: Final = re.compile(r"\*\*/|/\*\*$|\*|\?|\[[^\]]+\]|.")
_WILD: Final = {"**/": "(?:.*/)?", "/**": "/.*", "*": "[^/]*", "?": "[^/]"}

Rule: TypeAlias = tuple[re.Pattern[str], bool]


def ignored_in(root: Path) -> Callable[[str], bool]:
    """Return a function that takes a path relative to `root` and returns whether `.gitignore` files exclude it.

    The `.gitignore` files of the root and of the folders below it are used.
    """
    rules = cache(lambda folder: _rules(root / folder / FILE))

    def is_ignored(path: str) -> bool:
        parts = path.split("/")
        for length in range(1, len(parts) + 1):  # an ignored folder excludes all files in it
            verdict = False
            for depth in range(length):
                rest = "/".join(parts[depth:length]) + ("/" if length < len(parts) else "")
                for pattern, hides in rules("/".join(parts[:depth])):
                    if pattern.fullmatch(rest):
                        verdict = hides
            if verdict:
                return True
        return False

    return is_ignored


def _rules(path: Path) -> list[Rule]:
    try:
        lines = path.read_text(errors="replace").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [_rule(line) for line in map(str.strip, lines) if line and not line.startswith("#")]


def _rule(line: str) -> Rule:
    """Return the pattern of a line, for paths relative to the `.gitignore` file. The path of a folder ends with a slash."""
    hides = not line.startswith("!")
    text = line.removeprefix("!").removeprefix("\\")
    is_anchored = "/" in text.rstrip("/")
    end = "/" if text.endswith("/") else "/?"
    core = text.strip("/") if not text.endswith("/**") else text.lstrip("/")
    pattern = "".join(_WILD.get(part) or (part if part[0] == "[" else re.escape(part)) for part in _PART.findall(core))
    return re.compile(("" if is_anchored else "(?:.*/)?") + pattern.replace("[!", "[^") + end), hides


OURS: Final = "pyroclast"  # is never the project's own module, also when it is installed from a checkout
EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # the same modules result in the same bytes


def project_archive(root: Path, *, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> bytes | None:
    """Return a zip of the modules that this process has loaded from below `root`, and of their packages.

    None when there are none.

    Files that `.gitignore` excludes are left out, unless `include` names them without wildcards.

    Args:
        root: the project's folder.
        include: patterns of further files, relative to the root, such as `data/*.json`.
        exclude: patterns of files that are left out.
    """
    root = root.resolve()
    files = dict(_modules(root))
    for pattern in include:
        files |= {path.relative_to(root).as_posix(): path for path in root.glob(pattern) if path.is_file()}
    is_ignored = ignored_in(root)
    files = {name: path for name, path in files.items() if name in include or not is_ignored(path.relative_to(root).as_posix())}
    kept = {name: path for name, path in files.items() if not any(fnmatch.fnmatch(name, pattern) for pattern in exclude)}
    if not kept:
        return None
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:  # the payload is compressed as a whole
        for name, path in sorted(kept.items()):
            archive.writestr(zipfile.ZipInfo(name, EPOCH), path.read_bytes())
    return buffer.getvalue()


def _modules(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the archive name and the path of each module and of its parent packages."""
    installed = {Path(path).resolve() for path in sysconfig.get_paths().values()} | {Path(sys.prefix).resolve()}
    for name, module in sorted(sys.modules.items()):
        path = _file(module)
        if name == "__main__" or name.startswith(OURS) or path is None or not path.is_relative_to(root):
            continue
        if any(path.is_relative_to(place) for place in installed if place != root):
            continue
        parts = name.split(".")
        if path.name == "__init__.py":
            yield "/".join([*parts, "__init__.py"]), path
        else:
            yield "/".join(parts) + ".py", path


def _file(module: ModuleType | None) -> Path | None:
    file = getattr(module, "__file__", None)
    path = Path(file).resolve() if isinstance(file, str) else None
    return path if path is not None and path.suffix == ".py" and path.is_file() else None


LOCK: Final = "lock"
LOCKS: Final = ("requirements.lock", "requirements.txt", "uv.lock")


def locked_packages(root: Path, choice: str) -> str:
    """Return the requirements that pods install: of the file `choice` below `root`, or with "lock" of the first lock file there.

    Raises:
        Usage: there is no such file, or uv cannot read its lock file.
    """
    names = LOCKS if choice == LOCK else (choice,)
    path = next((root / name for name in names if (root / name).is_file()), None)
    if path is None:
        raise Usage(f"task: packages: there is no {' or '.join(names)} in {root}; give the path of a requirements file")
    if path.name != "uv.lock":
        return path.read_text()
    command = ["uv", "export", "--quiet", "--frozen", "--no-emit-project", "--no-dev", "--format", "requirements-txt"]
    try:
        return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout  # noqa: S603 - a fixed command
    except (OSError, subprocess.CalledProcessError) as error:
        why = getattr(error, "stderr", None) or error
        raise Usage(f"task: packages: uv cannot export {path}: {why}; export it to requirements.lock") from error
