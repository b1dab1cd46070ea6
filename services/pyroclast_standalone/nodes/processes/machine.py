"""What this machine has, processors, memory and GPUs, and which pod holds which GPU.

A node of the machine's true size offers exactly this. The finder is pure over the files below `root` and the output of one
command. GPUs are known by their UUIDs, because indices change with the driver's order, and with which of them a process can open.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

GPU: Final = "nvidia.com/gpu"
GPU_QUERY: Final = ("nvidia-smi", "--query-gpu=uuid,name,pci.bus_id", "--format=csv,noheader")
_QUERY_SECONDS: Final = 30.0  # the driver loads at the first use
_NAME: Final = re.compile(r"[^a-z0-9.-]+")
_LABEL: Final = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU. `device` is its device file; `identity` is its value in CUDA_VISIBLE_DEVICES: the UUID, else the index."""

    identity: str
    product: str
    device: str


@dataclass(frozen=True, slots=True)
class Machine:
    """The name and the size of a machine."""

    name: str
    cpus: int
    memory: int  # bytes
    gpus: tuple[Gpu, ...] = ()

    @property
    def resources(self) -> dict[str, str]:
        """The resources of the node of this machine."""
        counted = {GPU: str(len(self.gpus))} if self.gpus else {}
        return {"cpu": str(self.cpus), "memory": f"{self.memory // 1024}Ki", **counted}

    @property
    def labels(self) -> dict[str, str]:
        """The label with the type of the GPUs, if all are of one type, as NVIDIA's feature discovery writes it."""
        products = {gpu.product for gpu in self.gpus if gpu.product}
        product = _LABEL.sub("-", products.pop()).strip("-_.")[:63] if len(products) == 1 else ""
        return {f"{GPU}.product": product} if product else {}

    def __str__(self) -> str:
        kinds = ", ".join(sorted({gpu.product or "NVIDIA" for gpu in self.gpus}))
        gpus = f"{len(self.gpus)} GPUs ({kinds})" if self.gpus else "no GPU"
        return f"{self.name}: {self.cpus} CPUs, {self.memory / 1024**3:.1f} GiB, {gpus}"


def run_query(command: Sequence[str]) -> str:
    """Return the output of `command`. Empty if the program does not exist or fails, as without a driver."""
    if shutil.which(command[0]) is None:
        return ""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_QUERY_SECONDS)  # noqa: S603 - constant
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout if done.returncode == 0 else ""


def find_machine(
    cpus: int, root: Path = Path("/"), run: Callable[[Sequence[str]], str] = run_query, name: str = platform.node()
) -> Machine:
    """Return the machine. `cpus` is the number of processors that this process may use."""
    found = re.search(r"^MemTotal:\s+(\d+) kB", _text(root / "proc/meminfo"), re.MULTILINE)
    memory = int(found[1]) * 1024 if found else 0
    for file in ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"):  # less in a container
        limit = _text(root / file).strip()
        memory = min(memory, int(limit)) if limit.isdigit() else memory
    lowered = _NAME.sub("-", name.lower()).strip("-.")[:63].strip("-.")
    return Machine(lowered or "machine", cpus, memory, tuple(find_gpus(root, run)))


def find_gpus(root: Path, run: Callable[[Sequence[str]], str]) -> list[Gpu]:
    """Return the GPUs: as nvidia-smi lists them, else as the driver's files say, else one for each device file."""
    folders = _sorted(root / "proc/driver/nvidia/gpus", "*")
    by_bus = {_bus(folder.name): _information(folder / "information") for folder in folders}
    rows = [[part.strip() for part in line.split(",")] for line in run(GPU_QUERY).splitlines()]
    gpus = []
    for number, row in enumerate(row for row in rows if len(row) == 3):
        minor = by_bus.get(_bus(row[2]), {}).get("Device Minor", str(number))
        gpus.append(Gpu(row[0], row[1], str(root / f"dev/nvidia{minor}")))
    if gpus:
        return gpus
    for number, (_, said) in enumerate(sorted(by_bus.items())):
        identity = said.get("GPU UUID", "")
        identity = identity if identity.startswith("GPU-") and "?" not in identity else str(number)
        gpus.append(Gpu(identity, said.get("Model", ""), str(root / f"dev/nvidia{said.get('Device Minor', number)}")))
    files = [file for file in _sorted(root / "dev", "nvidia[0-9]*") if file.name.removeprefix("nvidia").isdigit()]
    files.sort(key=lambda file: int(file.name.removeprefix("nvidia")))
    return gpus or [Gpu(str(number), "", str(file)) for number, file in enumerate(files)]


class Devices:
    """The exclusive allocation of GPUs. It is on the disk, in the file `gpus` of each pod's folder, so that a restart keeps it.

    `pods` is the folder with a folder for each pod, named by its UID.
    """

    def __init__(self, gpus: Sequence[Gpu], pods: Path) -> None:
        self.gpus, self._pods = tuple(gpus), pods
        self._held: dict[str, dict[str, list[str]]] = {
            file.parent.name: json.loads(file.read_bytes()) for file in pods.glob("*/gpus")
        }

    def take(self, uid: str, container: str, count: int) -> list[Gpu] | None:
        """Return the GPUs of a container, the same at each of its starts. None when fewer than `count` are free."""
        own = self._held.setdefault(uid, {})
        if container not in own:
            held = {each for of_pod in self._held.values() for some in of_pod.values() for each in some}
            free = [gpu.identity for gpu in self.gpus if gpu.identity not in held]
            if len(free) < count:
                return None
            own[container] = free[:count]
            file = self._pods / uid / "gpus"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.with_name("gpus.new").write_text(json.dumps(own))
            file.with_name("gpus.new").replace(file)
        return [gpu for gpu in self.gpus if gpu.identity in own[container]]

    def release(self, uid: str) -> None:
        """Free the GPUs of a pod that has ended."""
        if self._held.pop(uid, None) is not None:
            (self._pods / uid / "gpus").unlink(missing_ok=True)


def _bus(text: str) -> str:
    """Return a PCI address in one form: nvidia-smi writes a domain of eight digits, the driver one of four."""
    domain, _, rest = text.lower().partition(":")
    return f"{domain.lstrip('0')}:{rest}"


def _information(file: Path) -> Mapping[str, str]:
    pairs = (line.partition(":") for line in _text(file).splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _sorted(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern)) if folder.is_dir() else []


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
