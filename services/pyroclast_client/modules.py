"""A zip of the project's own modules: the modules that are loaded from files below the project's root.

Installed modules are not included, because the image must have them.
"""

from __future__ import annotations

import fnmatch
import io
import sys
import sysconfig
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

from pyroclast_client.ignoring import ignored_in

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
