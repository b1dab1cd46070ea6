"""Carries out the stages of the Dockerfile without a container engine: each in a root of its own, by mounts and chroot.

The base image is stood in for by a root that holds a Python, its pip, a shell and the libraries that these load, and nothing
else. Needs root and overlay mounts.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.unit.chart import images

__all__ = ["Builder", "Built", "is_possible"]

_LEFT_OUT = shutil.ignore_patterns("__pycache__", "test", "tests", "idlelib", "site-packages", "lib2to3", "turtledemo")
_RUNTIME = ("dl", "pthread", "rt", "util", "m", "resolv", "nss_dns", "nss_files", "gcc_s", "stdc++")
_FROM_THE_MACHINE = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl/certs/ca-certificates.crt")
_TOOLS = ("sh", "mkdir", "rm")
_AUTHORITIES = dict.fromkeys(("PIP_CERT", "SSL_CERT_FILE"), "/etc/ssl/certs/ca-certificates.crt")
# Mounts the layers of a stage and runs a command in them; with mounts (a place, what lies there or nothing for memory) as a
# container is run: their places are made first, then the root is read-only.
_ENTER = """
import ctypes, json, os, subprocess, sys
layers, upper, work, at, mounts, user, environment, folder, *command = json.loads(sys.argv[1])
def mount(*arguments):
    subprocess.run(["mount", *arguments], check=True)
mount("--make-rprivate", "/")
mount("-t", "overlay", "overlay", "-o", f"lowerdir={':'.join(layers)},upperdir={upper},workdir={work}", at)
for place in ("/proc", "/dev", "/tmp", *mounts):
    os.makedirs(at + place, exist_ok=True)
mount("-t", "proc", "proc", f"{at}/proc")
mount("--rbind", "/dev", f"{at}/dev")
for place, source in mounts.items():
    mount("--bind", source, at + place) if source else mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", at + place)
if mounts:
    mount("-o", "remount,ro", at)
os.chroot(at)
os.chdir(folder)
if user:
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # no new privileges
os.execvpe(command[0], command, environment)
"""


def is_possible() -> bool:
    """Whether this machine lets us mount and change roots."""
    if os.geteuid() or shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


@dataclass(slots=True)
class Built:
    """A stage that has been carried out: its layers (uppermost first), environment, folder and user."""

    layers: list[Path]
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": "/usr/local/bin:/usr/bin:/bin"})
    folder: str = "/"
    user: int = 0


class Builder:
    """Carries out stages in `folder`, with the files of `root` as the context; `given` are the arguments of the build."""

    def __init__(self, folder: Path, root: Path, given: Mapping[str, str]) -> None:
        self._folder, self._root = folder, root
        text = (root / "Dockerfile").read_text()
        self._arguments = {**images.argument_defaults(text), **given}
        self._stages = images.stages(text, given)
        self._built: dict[str, Built] = {}
        self._count = 0
        self.base = folder / "base"
        _make_base(self.base)

    def build(self, name: str) -> Built:
        """The stage of that name; each is carried out once."""
        if name in self._built:
            return self._built[name]
        stage = self._stages[name]
        base = [self._new("scratch")] if stage.base == "scratch" else [self.base]
        below = self.build(stage.base) if stage.base in self._stages else Built(base)
        built = Built([self._new(f"{name}-layer"), *below.layers], dict(below.environment), below.folder, below.user)
        arguments: dict[str, str] = {}
        for each in stage.instructions:
            self._carry_out(each, built, arguments)
        self._built[name] = built
        return built

    def _carry_out(self, each: images.Instruction, built: Built, arguments: dict[str, str]) -> None:
        upper = built.layers[0]
        match each.word:
            case "ARG":
                key, _, default = each.text.partition("=")
                arguments[key] = self._arguments.get(key, default)
            case "ENV":
                for key, value in re.findall(r"(\w+)=(\S+)", each.text):
                    built.environment[key] = images.expand(value, {**arguments, **built.environment})
            case "WORKDIR":
                built.folder = each.text
                (upper / each.text.lstrip("/")).mkdir(parents=True, exist_ok=True)
            case "USER":
                built.user = int(each.text.partition(":")[0])
            case "COPY":
                self._copy(each.arguments, built)
            case "RUN":
                done = self.run(built, ["sh", "-c", each.text], {**_AUTHORITIES, **arguments})
                if done.returncode:
                    raise AssertionError(f"line {each.line}: {each.text}\n{done.stdout}{done.stderr}")
            case "LABEL" | "EXPOSE" | "ENTRYPOINT":
                pass  # nothing to do before a container starts
            case other:
                raise AssertionError(f"line {each.line}: {other} is not carried out here")

    def _copy(self, arguments: Sequence[str], built: Built) -> None:
        *options, target = arguments
        sources = [each for each in options if not each.startswith("--")]
        (origin,) = [each.removeprefix("--from=") for each in options if each.startswith("--from=")] or [""]
        into = built.layers[0] / os.path.join(built.folder, target).lstrip("/")
        for source in sources:
            if origin:
                self._copy_from(self.build(origin), source.strip("/"), into)
                continue
            found = [file for file in images.context(self._root) if file == source or file.startswith(f"{source}/")]
            assert found, f"{source} is not in the context"
            for file in found:
                place = into / (Path(file).name if file == source else Path(file).relative_to(source))
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(self._root / file, place)

    def _copy_from(self, origin: Built, source: str, into: Path) -> None:
        into.mkdir(parents=True, exist_ok=True)
        at, layers = self._new("view"), ":".join(map(str, origin.layers))
        script = f"mount -t overlay overlay -o lowerdir={layers} {at} && cp -a {at}/{source}/. {into}/"
        subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script], check=True)

    def command(
        self,
        built: Built,
        command: Sequence[str],
        mounts: Mapping[str, Path | None] | None = None,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> list[str]:
        """What runs `command` in a stage; with `mounts` (a folder by its place, None for memory) with a read-only root."""
        layers = built.layers if mounts else built.layers[1:]
        settings = [
            [str(layer) for layer in layers],
            str(self._new("upper") if mounts else built.layers[0]),
            str(self._new("work")),
            str(self._new("root")),
            {place: str(source) if source else "" for place, source in (mounts or {}).items()},
            built.user,
            {**built.environment, **(environment or {})},
            built.folder,
            *command,
        ]
        return ["unshare", "--mount", sys.executable, "-c", _ENTER, json.dumps(settings)]

    def run(
        self, built: Built, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `command` in a stage as it stands; what it writes stays."""
        line = self.command(built, command, environment=environment)
        return subprocess.run(line, capture_output=True, text=True, check=False, timeout=500)

    def _new(self, name: str) -> Path:
        self._count += 1
        path = self._folder / f"{self._count}-{name}"
        path.mkdir()
        return path


def _make_base(root: Path) -> None:
    """A root with a Python of its own and its pip under /usr/local, and a shell."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    library = root / "usr/local/lib" / version
    standard = Path(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix, "base": sys.base_prefix}))
    shutil.copytree(standard, library, ignore=_LEFT_OUT)
    (library / "site-packages").mkdir()
    programs = root / "usr/local/bin"
    programs.mkdir(parents=True)
    executable = Path(os.path.realpath(sys.executable))
    shutil.copy(executable, programs / version)
    for name in ("python", "python3"):
        (programs / name).symlink_to(version)
    pip = __import__("pip").__path__[0]
    shutil.copytree(pip, library / "site-packages/pip", ignore=shutil.ignore_patterns("__pycache__"))
    for record in Path(pip).parent.glob("pip-*.dist-info"):
        shutil.copytree(record, library / "site-packages" / record.name)
    (programs / "pip").write_text(
        "#!/usr/local/bin/python\nimport sys\nfrom pip._internal.cli.main import main\nsys.exit(main())\n"
    )
    (programs / "pip").chmod(0o755)
    (root / "bin").mkdir()
    tools = [Path(os.path.realpath(f"/bin/{name}")) for name in _TOOLS]
    for name, tool in zip(_TOOLS, tools, strict=True):
        shutil.copy(tool, root / "bin" / name)
    loaded = [executable, *tools, *library.rglob("*.so")]
    names = {path for each in loaded for path in _libraries(each)} | _runtime_libraries(executable)
    for name in [*names, *(path for path in _FROM_THE_MACHINE if Path(path).exists())]:
        place = root / str(name).lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.realpath(name), place)


def _libraries(program: Path) -> set[str]:
    told = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
    return set(re.findall(r"(/\S+) \(0x", told))


def _runtime_libraries(program: Path) -> set[str]:
    """All of the C library and the compilers' runtime, which every base image has, whoever loads them."""
    (folder,) = {os.path.dirname(path) for path in _libraries(program) if "/libc.so" in path}
    return {str(path) for name in _RUNTIME for path in Path(folder).glob(f"lib{name}.so.*")}
