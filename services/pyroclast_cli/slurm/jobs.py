"""Turns a script or a command with Slurm's options into a Job, and a Secret with what the Job runs."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from pyroclast.api import keys
from pyroclast.api.types import JOBS, SECRETS
from pyroclast.kube.http.node_facts import GPU_PRODUCT
from pyroclast.resources import durations
from pyroclast_cli.flags import Failure
from pyroclast_cli.slurm import values as parsers
from pyroclast_cli.slurm.options import Values, options
from pyroclast_cli.slurm.values import GPU, SECOND, SINGLETON, Devices

LAUNCHER: Final = Path(__file__).with_name("launch.sh")
FILES: Final = "/etc/vcctl"
RUN: Final = "/var/run/vcctl"
IMAGE: Final = "debian:stable-slim"
IMAGE_VARIABLE: Final = "VCCTL_IMAGE"
HOST_NAME: Final = "kubernetes.io/hostname"
ACCOUNT: Final = "pyroclast.dev/account"
COMMENT: Final = "pyroclast.dev/comment"
MOST_BYTES: Final = 900_000  # the API server takes Secrets of at most 1 MiB
KEPT_SECONDS: Final = 86_400  # as the Jobs of the Python client
LONGEST_NAME: Final = 40  # the suffix, the task and the index follow, and a name of a pod has 63 characters
IDLE: Final = "30m"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """Where the user submits.

    Attributes:
        suffix: the random end of the Job's name.
        folder: the current folder.
        is_here: whether the pods run as processes of this machine, in which the same folder is.
        archive: the packed current folder, if it travels.
        products: the values of the label of GPU products in the cluster.
    """

    suffix: str
    user: str = ""
    folder: str = "/"
    environ: Mapping[str, str] = field(default_factory=dict)
    is_here: bool = False
    archive: bytes = b""
    products: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Work:
    """What is to run: a script with arguments, or a command. `file` is the name of the script."""

    script: str = ""
    words: tuple[str, ...] = ()
    file: str = ""


@dataclass(frozen=True, slots=True)
class Submission:
    """The objects to create, and notes for the user. `singleton`: the Job waits for the earlier Jobs of its name."""

    job: dict[str, Any]
    secret: dict[str, Any]
    notes: tuple[str, ...]
    singleton: bool = False


def submission(command: str, given: Values, work: Work, place: Place) -> Submission:
    """Return the Job of `sbatch` or `srun`.

    Raises:
        Failure: options are refused or have invalid values; all of them are named.
    """
    return _Compiler(command, given, work, place).submission()


@dataclass(frozen=True, slots=True)
class _Size:
    """How many pods of how many tasks, and what each pod asks for."""

    pods: int
    tasks: int
    total: int
    cpus: int
    memory: str
    devices: tuple[Devices, ...]


class _Compiler:
    """Collects the problems of all options before it fails."""

    def __init__(self, command: str, given: Values, work: Work, place: Place) -> None:
        self._command, self._given, self._work, self._place = command, dict(given), work, place
        refused = [each for each in options() if each.name in given and each.refused and command in each.commands]
        self._problems = [f"--{each.name} is refused: {each.refused}" for each in refused]
        if refused and command == "sbatch":
            names = ",".join(each.name for each in refused)
            self._problems.append(f"--leave-out={names} submits without {'it' if len(refused) == 1 else 'them'}")
        self._notes = [
            f"--{each.name} has no effect here: {each.accepted}" for each in options() if each.accepted and each.name in given
        ]
        self._is_terminal = "pty" in given

    def submission(self) -> Submission:
        """Return the objects."""
        array = self._value("array", parsers.array)
        if "signal" in self._given and not self._given.keys() & {"time", "deadline"}:
            self._notes.append("--signal has no effect without --time or --deadline")
            del self._given["signal"]
        size = self._size()
        label = self._name()
        name = f"{label}-{self._place.suffix}"
        after = self._value("dependency", parsers.dependencies) or []
        labels = {keys.SLURM_NAME: label, ACCOUNT: self._text("account"), keys.SERVICE_CLASS: self._text("qos")}
        spec: dict[str, Any] = {
            "schedulerName": "volcano",
            "queue": self._queue(),
            "priorityClassName": self._priority(),
            "plugins": {"env": [], "slurm": []},
            "policies": self._policies(size),
            "after": [entry for entry in after if SINGLETON not in entry],
            "afterPolicy": self._choice("kill-on-invalid-dep", {"yes": "Fail", "no": "Wait"}),
            "maxRunTime": self._value("time", parsers.run_time),
            "deadline": self._value("deadline", parsers.moment),
            "signalBefore": self._value("signal", parsers.warning_signal),
            "suspend": "hold" in self._given,
            "ttlSecondsAfterFinished": KEPT_SECONDS,
        }
        if array is not None and size.pods > 1:
            self._problems.append("--array with --nodes above 1 is refused: submit a Job for each index, in a loop")
        if size.pods > 1:
            spec["plugins"] |= (
                {"svc": []} if self._command == "srun" else {"svc": ["--publish-not-ready-addresses"], "ssh": [], "mpi": []}
            )
        spec["tasks"] = self._tasks(name, size, array)
        if array is None:
            spec["minAvailable"] = size.pods
        job = {
            "apiVersion": JOBS.api_version,
            "kind": JOBS.kind,
            "metadata": _filled(
                {"name": name, "namespace": self._text("namespace"), "labels": _filled(labels)}
                | {"annotations": _filled({COMMENT: self._text("comment")})}
            ),
            "spec": _filled(spec),
        }
        secret = self._secret(name)
        if self._problems:
            raise Failure("\n".join(dict.fromkeys(self._problems)))
        return Submission(job, secret, tuple(self._notes), any(SINGLETON in entry for entry in after))

    # Values of options

    def _text(self, *names: str) -> str:
        """Return the last value of the first of these options that is given."""
        return next((self._given[name][-1] for name in names if name in self._given), "")

    def _value(self, name: str, parser: Callable[[str], T]) -> T | None:
        """Return the parsed value of an option. None when it is absent or invalid; the problem is recorded."""
        if name not in self._given:
            return None
        try:
            return parser(self._text(name))
        except ValueError as error:
            self._problems.append(f"--{name}: {error}")
            return None

    def _choice(self, name: str, choices: Mapping[str, str]) -> str:
        text = self._text(name)
        if text and text not in choices:
            self._problems.append(f'--{name}: "{text}" is not {" or ".join(choices)}')
        return choices.get(text, "")

    def _number(self, name: str) -> int:
        return self._value(name, parsers.number) or 0

    def _name(self) -> str:
        wanted = self._text("job-name") or self._work.file or (self._work.words[0] if self._work.words else "") or "wrap"
        base = re.sub(r"\.(sh|bash|slurm|sbatch|job)$", "", wanted.rpartition("/")[2].lower())
        clean = re.sub(r"[^a-z0-9]+", "-", base).strip("-")
        return clean[:LONGEST_NAME].rstrip("-") if clean[:1].isalpha() else f"job-{clean}"[:LONGEST_NAME].rstrip("-")

    def _queue(self) -> str:
        queue = self._text("partition")
        if "," in queue:
            self._problems.append(
                f'--partition: "{queue}" names several queues; a Job belongs to one: --partition={queue.partition(",")[0]}'
            )
        return queue

    def _priority(self) -> str:
        priority = self._text("priority")
        if priority.isdecimal():
            self._problems.append("--priority: a number is refused; name a PriorityClass of `kubectl get priorityclass`")
        return priority

    def _policies(self, size: _Size) -> list[dict[str, str]]:
        policies = []
        if "no-requeue" in self._given or self._is_terminal:
            policies.append({"event": "PodEvicted", "action": "TerminateJob"})
        elif "requeue" in self._given:
            policies.append({"event": "PodEvicted", "action": "RestartJob"})
        if size.pods > 1:
            policies.append({"event": "PodFailed", "action": "TerminateJob"})
        return policies

    # Amounts

    def _size(self) -> _Size:
        per_node = self._number("ntasks-per-node") or self._number("tasks-per-node")
        total, pods = self._number("ntasks"), self._value("nodes", parsers.nodes) or 0
        if not pods:
            pods = -(-total // per_node) if total and per_node else total if total and self._command == "srun" else 1
        tasks = -(-total // pods) if total else per_node or 1
        if per_node and tasks > per_node:
            self._problems.append(f"--ntasks={total} does not fit: {pods} nodes of {per_node} tasks have {pods * per_node}")
        if total and total < pods:
            self._problems.append(f"--nodes={pods} is more than --ntasks={total}: each pod runs a task at least")
        devices = self._devices(pods, tasks)
        gpus = sum(each.amount for each in devices if each.resource == GPU)
        cpus = max(tasks * (self._number("cpus-per-task") or 1), gpus * self._number("cpus-per-gpu"), self._number("mincpus"))
        memory = self._value("mem", parsers.size)
        memory = memory or self._value("mem-per-cpu", lambda text: parsers.size(text, times=cpus))
        memory = memory or self._value("mem-per-gpu", lambda text: parsers.size(text, times=gpus or 1))
        return _Size(pods, tasks, total or pods * tasks, cpus, memory or "", devices)

    def _devices(self, pods: int, tasks: int) -> tuple[Devices, ...]:
        devices = list(self._value("gres", parsers.generic) or [])
        if (each := self._value("gpus-per-node", parsers.gpus)) is not None:
            devices.append(each)
        elif (each := self._value("gpus-per-task", parsers.gpus)) is not None:
            devices.append(each._replace(amount=each.amount * tasks))
        elif (each := self._value("gpus", parsers.gpus)) is not None:
            if each.amount % pods:
                self._problems.append(f"--gpus={each.amount} does not divide over {pods} pods: --gpus-per-node says it for each")
            devices.append(each._replace(amount=each.amount // pods))
        return tuple(devices)

    # Objects

    def _tasks(self, name: str, size: _Size, array: parsers.Array | None) -> list[dict[str, Any]]:
        if self._command == "sbatch":
            words = ["batch", *self._work.words]
        elif self._is_terminal:
            words = ["wait", str(self._idle())]
        else:
            words = ["tasks", *self._work.words]
        if self._command == "sbatch" and size.pods > 1:
            master = self._task("master", 1, words, name, size)
            master["policies"] = [{"event": "TaskCompleted", "action": "CompleteJob"}]
            return [master, self._task("worker", size.pods - 1, ["steps"], name, size)]
        task = self._task("batch" if self._command == "sbatch" else "task", size.pods, words, name, size)
        if array is not None:
            del task["replicas"]
            task["array"] = {"indexes": array.indexes, **({"maxParallel": array.most} if array.most else {})}
        return [task]

    def _task(self, task: str, replicas: int, words: Sequence[str], name: str, size: _Size) -> dict[str, Any]:
        amounts = {"cpu": str(size.cpus), "memory": size.memory, **{each.resource: str(each.amount) for each in size.devices}}
        scratch = self._value("tmp", parsers.size)
        requests = _filled({**amounts, "ephemeral-storage": scratch})
        gpus = sum(each.amount for each in size.devices if each.resource == GPU)
        plain = {
            "VCCTL_RUN": RUN,
            "VCCTL_TASKS": str(size.tasks),
            "VCCTL_NTASKS": str(size.total),
            "VCCTL_CPUS": str(self._number("cpus-per-task") or 1),
            "VCCTL_GPUS": str(gpus) if gpus else "",
            "VCCTL_USER": self._place.user,
            "VCCTL_OUTPUT": self._text("output"),
            "VCCTL_ERROR": self._text("error"),
            "VCCTL_OPEN": self._text("open-mode"),
            "VCCTL_INPUT": self._text("input"),
            "SLURM_JOB_ID": name,
            "SLURM_ARRAY_JOB_ID": name if "array" in self._given else "",
            "SLURM_JOB_NAME": self._text("job-name") or self._name(),
            "SLURM_JOB_NUM_NODES": str(size.pods),
        }
        secret = _secret_name(name)
        env: list[dict[str, Any]] = [{"name": each, "value": _literal(value)} for each, value in plain.items() if value]
        env += [
            {"name": each, "valueFrom": {"secretKeyRef": {"name": secret, "key": f"env.{each}"}}} for each in self._variables()
        ]
        claims = [each.partition(":") for each in self._given.get("volume", ())]
        mounts = [{"name": "vcctl", "mountPath": FILES, "readOnly": True}, {"name": "run", "mountPath": RUN}]
        items = [{"key": "launch", "path": each} for each in ("launch", "srun", "scontrol")]
        items += [{"key": each, "path": each} for each in ("script", "folder") if each in self._files()]
        container = {
            "name": task,
            "image": self._text("container-image", "image") or self._place.environ.get(IMAGE_VARIABLE) or IMAGE,
            "command": ["sh", f"{FILES}/launch", *map(_literal, words)],
            "workingDir": self._folder(),
            "env": env,
            "resources": {
                "requests": requests,
                "limits": {each: value for each, value in requests.items() if each != "ephemeral-storage"},
            },
            "volumeMounts": [*mounts, *({"name": f"claim-{i}", "mountPath": path} for i, (_, _, path) in enumerate(claims))],
        }
        volumes: list[dict[str, Any]] = [
            {"name": "vcctl", "secret": {"secretName": secret, "defaultMode": 0o555, "items": items}},
            {"name": "run", "emptyDir": {}},
            *({"name": f"claim-{i}", "persistentVolumeClaim": {"claimName": claim}} for i, (claim, _, _) in enumerate(claims)),
        ]
        if any(not claim or not path.startswith("/") for claim, _, path in claims):
            self._problems.append("--volume: write CLAIM:/PATH, with the name of a PersistentVolumeClaim")
        spec = {
            "restartPolicy": "Never",
            "containers": [_filled(container)],
            "volumes": volumes,
            "affinity": self._affinity(name, size),
        }
        return {"name": task, "replicas": replicas, "template": {"spec": _filled(spec)}}

    def _affinity(self, name: str, size: _Size) -> dict[str, Any]:
        terms = self._value("constraint", parsers.feature_terms) or [[]]
        common: list[dict[str, Any]] = []
        for option, operator in (("nodelist", "In"), ("exclude", "NotIn")):
            if names := self._value(option, parsers.node_names):
                common.append({"key": HOST_NAME, "operator": operator, "values": names})
        for each in size.devices:
            if each.type:
                alike = [product for product in self._place.products if each.type.lower() in product.lower()]
                common.append({"key": GPU_PRODUCT, "operator": "In", "values": alike or [each.type]})
        required = [{"matchExpressions": [*term, *common]} for term in terms if term or common]
        preferred = [
            {"weight": 100, "preference": {"matchExpressions": term}}
            for term in self._value("prefer", parsers.feature_terms) or []
        ]
        node = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
        if required:
            node["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": required}  # type: ignore[assignment]
        apart: list[dict[str, Any]] = []
        if "nodes" in self._given and size.pods > 1:
            apart.append({"labelSelector": {"matchLabels": {keys.JOB_NAME: name}}, "topologyKey": HOST_NAME})
        if "exclusive" in self._given:
            if self._text("exclusive"):
                self._problems.append("--exclusive: a value is refused; alone, it keeps all other Jobs from the node")
            of_jobs = {"matchExpressions": [{"key": keys.JOB_NAME, "operator": "Exists"}]}
            apart.append({"labelSelector": of_jobs, "namespaceSelector": {}, "topologyKey": HOST_NAME})
        return _filled(
            {"nodeAffinity": _filled(node)}
            | {"podAntiAffinity": _filled({"requiredDuringSchedulingIgnoredDuringExecution": apart})}
        )

    def _folder(self) -> str:
        if (folder := self._text("chdir", "container-workdir")) or self._place.is_here:
            return folder or self._place.folder
        inside = [path for _, _, path in (each.partition(":") for each in self._given.get("volume", ()))]
        return self._place.folder if any(f"{self._place.folder}/".startswith(f"{path.rstrip('/')}/") for path in inside) else ""

    def _idle(self) -> int:
        seconds = self._value("idle", durations.nanoseconds)
        return (durations.nanoseconds(IDLE) if seconds is None else seconds) // SECOND

    def _variables(self) -> dict[str, str]:
        return self._value("export", lambda text: parsers.exported(text, self._place.environ)) or {}

    def _files(self) -> dict[str, bytes]:
        files = {"launch": LAUNCHER.read_bytes()}
        if self._work.script:
            files["script"] = self._work.script.encode()
        if self._place.archive:
            files["folder"] = self._place.archive
        return files

    def _secret(self, name: str) -> dict[str, Any]:
        content = self._files() | {f"env.{each}": value.encode() for each, value in self._variables().items()}
        if (total := sum(map(len, content.values()))) > MOST_BYTES:
            what = "the script" if self._work.script else "the folder"
            self._problems.append(
                f"{what} has {total:,} bytes with what belongs to it, and at most {MOST_BYTES:,} travel in a Secret: "
                "keep it on a shared volume (--volume=CLAIM:PATH), and start it from there"
            )
        return {
            "apiVersion": SECRETS.api_version,
            "kind": SECRETS.kind,
            "metadata": _filled({"name": _secret_name(name), "namespace": self._text("namespace")}),
            "data": {each: base64.b64encode(value).decode() for each, value in content.items()},
        }


def _literal(text: str) -> str:
    """Return text so that a kubelet, which replaces `$(NAME)` and `$$` in commands and variables, leaves it as it is."""
    return text.replace("$", "$$") if "$(" in text or "$$" in text else text


def _secret_name(job: str) -> str:
    return f"{job}-submitted"


def _filled(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries that say something."""
    return {name: value for name, value in mapping.items() if value not in (None, "", [], {}, False)}
