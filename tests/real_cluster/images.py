"""The images of the real cluster: small bases made from Debian's packages, and the project's own, built by its Dockerfile.

No registry of images is asked. An image is one tarball in the cache, whose name tells what it was made from, so that an unchanged
one costs nothing. A node imports the tarballs when it starts.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import IO, cast

from tests.control_plane import build

__all__ = [
    "BUSYBOX",
    "COREDNS",
    "MPI",
    "PAUSE",
    "POSTGRES",
    "PYTHON",
    "REPOSITORY",
    "TARGETS",
    "TORCH",
    "base_images",
    "build_dir",
    "image",
    "project_images",
    "sizes",
]

BUSYBOX, COREDNS, MPI, PAUSE = "busybox:1.37", "example.org/coredns:1", "example.org/mpi:1", "example.org/pause:1"
POSTGRES, TORCH = "example.org/postgres:1", "example.org/torch:1"
"""Large images, which only the tests that run them import."""
PYTHON = "example.org/python:3.13"
"""The base of the project's own images, and of pods that run Python."""
REPOSITORY = "example.org/pyroclast"
TARGETS = ("admission", "board", "job-controller", "jobflow-controller", "recorder", "scheduler")

_ROOT = Path(__file__).parents[2]
_SUITE = "trixie"  # has Python 3.13, as the base that the Dockerfile names
_PAUSE_C = "#include <signal.h>\n#include <unistd.h>\nstatic void end(int s) { _exit(0); }\n"
_PAUSE_C += "int main(void) { signal(SIGINT, end); signal(SIGTERM, end); for (;;) pause(); }\n"
_VENV = 'chroot "$1" python3 -m venv /opt/python'
_LEFT_OUT = 'cd "$1" && rm -rf usr/share/doc usr/share/man usr/share/locale var/cache/apt var/lib/apt/lists'


def build_dir() -> Path:
    """The folder of the tarballs, beside the programs of the control plane."""
    folder = build.cache_root().parent / "images"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def base_images() -> dict[str, Path]:
    """The tarballs of the images that each node has from its start, by name; those that are missing are made."""
    return {name: image(name) for name in (PAUSE, BUSYBOX, COREDNS, PYTHON, MPI)}


def image(name: str) -> Path:
    """The tarball of an image that is not ours, made if it is missing."""
    makers: dict[str, tuple[str, Callable[[Path], Mapping[str, object]]]] = {
        PAUSE: (_PAUSE_C, _pause),
        BUSYBOX: ("1", _busybox),
        COREDNS: (str(build.program("coredns")), _coredns),
        PYTHON: (_VENV + _LEFT_OUT, _python),
        MPI: ("2", _mpi),
        POSTGRES: ("1", partial(_packages, ["postgresql"])),
        TORCH: ("1", partial(_packages, ["python3-torch"])),
    }
    source, make = makers[name]
    return _cached(name, source, make)


def project_images(checkout: Path = _ROOT) -> Path:
    """One tarball of all images of the checkout, `REPOSITORY/TARGET:KEY` each, where KEY is the name of the file.

    The Dockerfile is built unchanged; buildah keeps its layers, so only what changed is made anew. `PYROCLAST_IMAGES=KEY` takes
    those that were built before instead.
    """
    key = os.environ.get("PYROCLAST_IMAGES") or _digest_of(checkout)
    archive = build_dir() / f"{key}.tar"
    if archive.exists():
        return archive
    base = image(PYTHON)
    with tempfile.TemporaryDirectory(dir=build_dir()) as folder:
        layout = Path(folder) / "layout"
        _buildah("pull", "--quiet", f"docker-archive:{base}")
        for target in TARGETS:
            reference = f"{REPOSITORY}/{target}:{key}"
            arguments = [
                "--build-arg",
                f"PYTHON={PYTHON}",
                "--build-arg",
                "UNPINNED=true",
                "--target",
                target,
                "--tag",
                reference,
            ]
            _buildah(
                "build",
                "--quiet",
                "--layers",
                "--isolation",
                "chroot",
                "--network",
                "host",
                "--pull-never",
                *arguments,
                str(checkout),
            )
            _buildah(
                "push", "--quiet", "--compression-format", "gzip", "--compression-level", "1", reference, f"oci:{layout}:{target}"
            )
        _name_images(layout, key)
        unfinished = archive.with_suffix(".building")
        subprocess.run(["tar", "-C", str(layout), "-cf", str(unfinished), "."], check=True)
        unfinished.rename(archive)
    return archive


def _name_images(layout: Path, key: str) -> None:
    """Write the full names, by which containerd imports them, into the index of an OCI layout."""
    index = json.loads((layout / "index.json").read_text())
    for manifest in index["manifests"]:
        target = manifest["annotations"]["org.opencontainers.image.ref.name"]
        manifest["annotations"]["io.containerd.image.name"] = f"{REPOSITORY}/{target}:{key}"
    (layout / "index.json").write_text(json.dumps(index))


def _buildah(verb: str, *arguments: str) -> None:
    command = ["nice", "buildah", "--storage-driver", "overlay", verb, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(f"buildah {verb}: {ended.stderr[-2000:]}")


def _digest_of(checkout: Path) -> str:
    """A key of everything that the Dockerfile reads."""
    listed = ["git", "-C", str(checkout), "ls-files", "-co", "--exclude-standard", "-z", "--"]
    paths = [
        "Dockerfile",
        "images/parts.py",
        "requirements.lock",
        "requirements-build.lock",
        "pyproject.toml",
        "libs",
        "services",
    ]
    names = subprocess.run([*listed, *paths], capture_output=True, text=True, check=True).stdout
    digest = hashlib.sha256()
    for name in sorted(filter(None, names.split("\0"))):
        if (checkout / name).is_file():
            digest.update(name.encode() + b"\0" + hashlib.sha256((checkout / name).read_bytes()).digest())
    return digest.hexdigest()[:16]


def _cached(name: str, source: str, make: Callable[[Path], Mapping[str, object]]) -> Path:
    digest = hashlib.sha256(source.encode()).hexdigest()[:12]
    archive = build_dir() / f"{name.rpartition('/')[2].replace(':', '-')}-{digest}.tar"
    if not archive.exists():
        print(f"making the image {name}", flush=True)
        with tempfile.TemporaryDirectory(dir=build_dir()) as folder:
            layer = Path(folder) / "layer.tar"
            config = make(layer)
            _pack(layer, name, config, archive)
    return archive


def _pack(layer: Path, name: str, config: Mapping[str, object], archive: Path) -> None:
    """Pack one layer into an archive as `docker save` writes it."""
    digest = hashlib.sha256(layer.read_bytes()).hexdigest()
    image = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"], **config},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [{"created_by": "packages of Debian"}],
    }
    body = json.dumps(image).encode()
    file = f"{hashlib.sha256(body).hexdigest()}.json"
    manifest = json.dumps([{"Config": file, "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]}]).encode()
    unfinished = archive.with_suffix(".building")
    with tarfile.open(unfinished, "w") as out:
        for path, content in ((file, body), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            out.addfile(entry, io.BytesIO(content))
        out.add(layer, f"{digest}/layer.tar")
    unfinished.rename(archive)


def _pause(layer: Path) -> Mapping[str, object]:
    program = layer.with_name("pause")
    subprocess.run(["gcc", "-static", "-O2", "-o", str(program), "-x", "c", "-"], input=_PAUSE_C, text=True, check=True)
    with tarfile.open(layer, "w") as out:
        out.add(program, "pause")
    return {"Entrypoint": ["/pause"]}


def _busybox(layer: Path) -> Mapping[str, object]:
    program = shutil.which("busybox") or "/bin/busybox"
    applets = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    with tarfile.open(layer, "w") as out:
        for folder in ("bin", "etc", "tmp", "root"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            out.addfile(entry)
        out.add(os.path.realpath(program), "bin/busybox")
        for applet in applets:
            if applet != "busybox":
                entry = tarfile.TarInfo(f"bin/{applet}")
                entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
                out.addfile(entry)
        _add_file(out, "etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")
    return {"Cmd": ["sh"]}


def _add_file(out: tarfile.TarFile, path: str, text: str) -> None:
    entry = tarfile.TarInfo(path)
    entry.size = len(text)
    out.addfile(entry, io.BytesIO(text.encode()))


def _coredns(layer: Path) -> Mapping[str, object]:
    with tarfile.open(layer, "w") as out:
        out.add(build.program("coredns"), "coredns")
    return {"Entrypoint": ["/coredns"]}


def _python(layer: Path) -> Mapping[str, object]:
    _debian(layer, ["python3", "python3-venv", "ca-certificates"], [*_certificates(), _VENV, _LEFT_OUT])
    return {"Cmd": ["python"], "Env": ["PATH=/opt/python/bin:/usr/local/bin:/usr/bin:/bin"]}


def _packages(packages: list[str], layer: Path) -> Mapping[str, object]:
    _debian(layer, packages, [_LEFT_OUT])
    return {"Cmd": ["sh"]}


def _mpi(layer: Path) -> Mapping[str, object]:
    hooks = [
        'mkdir -p "$1"/run/sshd; rm -f "$1"/etc/ssh/ssh_host_*; chroot "$1" ssh-keygen -A; chroot "$1" useradd -m -u 1000 mpi',
        _LEFT_OUT,
    ]
    _debian(layer, ["openssh-server", "openssh-client", "openmpi-bin", "python3", "procps"], hooks)
    return {"Cmd": ["sh"]}


def _certificates() -> list[str]:
    """What lets pip reach its index from inside, where this machine has certificates or settings of its own for that."""
    bundle = os.environ.get("PIP_CERT") or "/etc/ssl/certs/ca-certificates.crt"
    if not Path(bundle).exists():
        return []
    return [
        f'cp {bundle} "$1"/etc/ssl/certs/ca-certificates.crt',
        'printf "[global]\\ncert = /etc/ssl/certs/ca-certificates.crt\\n" > "$1"/etc/pip.conf',
    ]


def _debian(layer: Path, packages: list[str], hooks: list[str]) -> None:
    """A minimal Debian with some packages, from the mirror that this machine uses."""
    mirror = next(
        line.split()[1]
        for file in Path("/etc/apt/sources.list.d").glob("*.sources")
        for line in file.read_text().splitlines()
        if line.startswith("URIs:")
    )
    options = [option for hook in hooks for option in ("--customize-hook", hook)]
    command = ["mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", f"--include={','.join(packages)}", *options]
    environment = {**os.environ, "PIP_FIND_LINKS": ""}
    ended = subprocess.run(
        [*command, _SUITE, str(layer), f"deb {mirror} {_SUITE} main"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    if ended.returncode:
        raise RuntimeError(f"mmdebstrap: {ended.stderr[-2000:]}")


def sizes(archive: Path) -> dict[str, dict[str, int]]:
    """The layers of each image of the project, by target: the bytes of each when unpacked, by its digest, from the lowest."""
    found: dict[str, int] = {}
    with tarfile.open(archive) as tar:

        def blob(digest: str) -> IO[bytes]:
            return cast("IO[bytes]", tar.extractfile(f"./blobs/{digest.replace(':', '/')}"))

        def unpacked(digest: str) -> int:
            if digest not in found:
                with gzip.open(blob(digest)) as layer:
                    found[digest] = sum(len(chunk) for chunk in iter(lambda: layer.read(1 << 20), b""))
            return found[digest]

        index = json.load(cast("IO[bytes]", tar.extractfile("./index.json")))
        names = {each["digest"]: each["annotations"]["org.opencontainers.image.ref.name"] for each in index["manifests"]}
        manifests = {name: json.load(blob(digest)) for digest, name in names.items()}
        return {
            name: {each["digest"]: unpacked(each["digest"]) for each in manifest["layers"]}
            for name, manifest in manifests.items()
        }
