"""Compiles a function call to a Job and its Secret. Pure, except that it reads the project's modules."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.types import JOBS, SECRETS
from pyroclast.kube.http.node_facts import GPU_PRODUCT
from pyroclast.lifecycle.flow.patch import PatchError, patched
from pyroclast.resources.durations import DurationError, nanoseconds
from pyroclast_client.documents import EXECUTOR, PAYLOAD, SERIALIZER, STORE, SUBMISSION, Document, secret_name
from pyroclast_client.errors import Usage
from pyroclast_client.modules import locked_packages, project_archive
from pyroclast_client.options import DRIVER, Gang, TaskOptions, function_name
from pyroclast_client.payload import Arguments, claim_of, packed, secret_data
from pyroclast_client.runner import sealing

TASK: Final = "main"
FOLDER: Final = "/opt/pyroclast"
STORE_FOLDER: Final = "/opt/pyroclast-store"
TERMINATION_LOG: Final = "/dev/termination-log"
GRACE_SECONDS: Final = 30
FOR_GOOD: Final = (sealing.UNPICKLABLE, sealing.TIMED_OUT)
"""Exit codes of the runner after which another try would end in the same way: no result to send, and over the timeout."""
CRASHES: Final = (134, 137, 139)
"""Exit codes of a process that was aborted, killed (also for its memory) or had a segmentation fault."""
BACKSTOP_SECONDS: Final = 30
"""How long after the timeout of a call the kubelet ends its pod, if the runner could not."""
IMAGE_VARIABLE: Final = "PYROCLAST_IMAGE"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The namespace that a client adds to a call, and its defaults for options that are not set.

    `products` are the values of the label of GPU products in the cluster. `folder` is the working folder of pods on this machine.
    """

    namespace: str
    queue: str | None = None
    image: str | None = None
    store: str | None = None
    python: str = "python3"
    env: Mapping[str, str] = field(default_factory=dict)
    products: tuple[str, ...] = ()
    folder: str = ""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A Job, and the Secret with the function that the Job runs."""

    job: Document
    secret: Document = field(repr=False)


def modules_of(options: TaskOptions) -> bytes | None:
    """Return the archive of the project's modules that `options` select. None when there are no such modules."""
    return project_archive(Path(options.root or os.getcwd()), include=options.include, exclude=options.exclude)


def requirements_of(options: TaskOptions) -> str:
    """Return the packages that pods install. Empty when the image has all."""
    return locked_packages(Path(options.root or os.getcwd()), options.packages) if options.packages else ""


def compiled(
    function: Callable[..., Any] | None,
    arguments: Sequence[Arguments],
    options: TaskOptions,
    surroundings: Surroundings,
    *,
    name: str,
    is_sweep: bool = False,
    executor: str = "",
) -> Compiled:
    """Return the Job that calls `function`: a gang whose pods have the same arguments, or a sweep with a pod for each set.

    `executor` is the name of the executor by which `Client.jobs` finds the Job.
    """
    store = options.store or surroundings.store
    if options.checkpoint is not None and not store:
        raise Usage("task: checkpoint: checkpoints need a store; give `store='file:///shared/folder'` to the task or the client")
    payload = packed(
        function,
        arguments,
        name=function_name(function),
        job=name,
        tries=options.retries + 1 if is_sweep else 1,
        serializer=options.serializer,
        store=store,
        modules=modules_of(options),
        has_files=bool(options.include),
        requirements=requirements_of(options),
        checkpoint=options.checkpoint,
    )
    size = Gang(len(arguments), 1) if is_sweep else options.gang
    template = pod_template(options, surroundings, secret=secret_name(name), world=size.size, store=store)
    spec = with_patch(
        job_spec(
            options,
            surroundings,
            size,
            template,
            policies=_policies(options, size.size, is_sweep=is_sweep),
            is_sweep=is_sweep,
        ),
        options.patch,
    )
    metadata: dict[str, Any] = {"name": name, "namespace": surroundings.namespace}
    if executor:
        metadata["labels"] = {EXECUTOR: executor}
    marks = {SUBMISSION: payload.submission, PAYLOAD: secret_name(name), **({STORE: store} if store else {})}
    if options.until == DRIVER:
        marks[keys.DRIVER_ALIVE_UNTIL] = ""  # the client sets the time when it submits the Job
    job = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": {**metadata, "annotations": marks}, "spec": spec}
    secret = {
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.kind,
        "metadata": {
            "name": secret_name(name),
            "namespace": surroundings.namespace,
            "labels": {PAYLOAD: "true"},
            "annotations": {SUBMISSION: payload.submission},
        },
        "immutable": True,
        "data": secret_data({"payload": payload.data}, store),
    }
    return Compiled(job, secret)


def job_spec(
    options: TaskOptions,
    surroundings: Surroundings,
    gang: Gang,
    template: Document,
    *,
    policies: Mapping[str, Any],
    is_sweep: bool = False,
) -> Document:
    """Return the spec of a Job with one task of these pods. It is an array when only some calls of a sweep run at a time."""
    task = {"name": TASK, "replicas": gang.size, "minAvailable": gang.least, "template": template}
    if is_sweep and options.parallel:
        del task["replicas"]
        task["array"] = {"indexes": f"0-{gang.size - 1}", "keepPods": True, "maxParallel": options.parallel}
    spec: dict[str, Any] = {"minAvailable": gang.least, "schedulerName": "volcano", "tasks": [task], **policies}
    if options.gang.size > 1:
        spec["plugins"] = {"svc": ["--publish-not-ready-addresses"], "env": []}
    if queue := options.queue or surroundings.queue:
        spec["queue"] = queue
    if options.topology is not None:
        spec["networkTopology"] = _topology(options.topology)
    if options.priority is not None:
        spec["priorityClassName"] = options.priority
    if options.ttl is not None:
        spec["ttlSecondsAfterFinished"] = options.ttl
    return _with_pod(spec, options.pod) if options.pod else spec


def pod_template(
    options: TaskOptions,
    surroundings: Surroundings,
    *,
    secret: str,
    world: int,
    payload: str = "payload",
    store: str | None = None,
) -> Document:
    """Return the template of pods that run a function. The template mounts the claim of the store."""
    image = options.image or surroundings.image or os.environ.get(IMAGE_VARIABLE)
    if not image:
        raise Usage(f"task: image: none is named; give `image=` to the task or the client, or set {IMAGE_VARIABLE}")
    volumes: list[dict[str, Any]] = [{"name": "pyroclast", "secret": {"secretName": secret}}]
    mounts: list[dict[str, Any]] = [{"name": "pyroclast", "mountPath": FOLDER, "readOnly": True}]
    for number, (path, source) in enumerate(options.mounts.items()):
        claim = {"persistentVolumeClaim": {"claimName": source}} if isinstance(source, str) else dict(source)
        volumes.append({"name": f"mount-{number}", **claim})
        mounts.append({"name": f"mount-{number}", "mountPath": path})
    if store_claim := claim_of(store):
        volumes.append({"name": "store", "persistentVolumeClaim": {"claimName": store_claim}})
        mounts.append({"name": "store", "mountPath": STORE_FOLDER})
    container: dict[str, Any] = {
        "name": TASK,
        "image": image,
        "command": [options.python or surroundings.python, f"{FOLDER}/runner.pyz"],
        "env": _environment(options, surroundings, world, payload, store_claim),
        "volumeMounts": mounts,
        "terminationMessagePath": TERMINATION_LOG,
    }
    if surroundings.folder:
        container["workingDir"] = surroundings.folder
    if resources := _resources(options):
        container["resources"] = resources
    spec: dict[str, Any] = {"restartPolicy": "Never", "containers": [container], "volumes": volumes}
    if kind := options.gpu_type:
        products = [each for each in surroundings.products if kind.lower() in each.lower()] or [kind]
        term = {"matchExpressions": [{"key": GPU_PRODUCT, "operator": "In", "values": products}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    spec["automountServiceAccountToken"] = False  # the pods need no access to the API server
    if options.checkpoint is not None:
        spec["terminationGracePeriodSeconds"] = _grace(options)
    if options.timeout is not None:
        spec["activeDeadlineSeconds"] = seconds_of(options.timeout) + BACKSTOP_SECONDS
    if options.serializer == "json":
        return {"metadata": {"annotations": {SERIALIZER: "json"}}, "spec": spec}
    return {"spec": spec}


def _environment(options: TaskOptions, surroundings: Surroundings, world: int, payload: str, claim: str) -> list[dict[str, Any]]:
    variables: dict[str, Any] = {
        "PYROCLAST_INDEX": {"fieldRef": {"fieldPath": f"metadata.labels['{keys.TASK_INDEX}']"}},
        "PYROCLAST_POD_UID": {"fieldRef": {"fieldPath": "metadata.uid"}},
    }
    found = [{"name": name, "valueFrom": source} for name, source in variables.items()]
    texts = {
        "PYROCLAST_WORLD": str(world),
        **({"PYROCLAST_PAYLOAD": payload} if payload != "payload" else {}),
        **({} if options.checkpoint is None else {"PYROCLAST_GRACE": str(_grace(options))}),
        **({} if options.timeout is None else {"PYROCLAST_TIMEOUT": str(seconds_of(options.timeout))}),
        **({sealing.CLAIMS: f"{claim}={STORE_FOLDER}"} if claim else {}),
        "PYROCLAST_TERMINATION_LOG": TERMINATION_LOG,
        "PYTHONUNBUFFERED": "1",
        **surroundings.env,
        **{name: str(value) for name, value in options.env.items()},
    }
    found += [{"name": name, "value": value} for name, value in texts.items()]
    for name, reference in options.secrets.items():
        secret, _, key = reference.partition("/")
        found.append({"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}})
    return found


def _resources(options: TaskOptions) -> dict[str, Any]:
    requests = {name: str(value) for name, value in (("cpu", options.cpu), ("memory", options.memory)) if value is not None}
    limits = {name: str(value) for name, value in options.devices.items()}
    if options.memory is not None:
        limits["memory"] = str(options.memory)
    return {name: amounts for name, amounts in (("requests", {**requests, **gpus_of(limits)}), ("limits", limits)) if amounts}


def gpus_of(limits: Mapping[str, str]) -> dict[str, str]:
    """Return the extended resources, whose requests and limits must be equal."""
    return {name: value for name, value in limits.items() if "/" in name}


def _policies(options: TaskOptions, size: int, *, is_sweep: bool) -> dict[str, Any]:
    """Return the policies for failed, evicted and deleted pods: what may succeed is tried again.

    A sweep restarts an evicted pod, and with `retries` a crashed one; it repeats a failed call in its pod. A gang restarts as a
    whole. With `idempotent`, a single call or a gang that was evicted or lost its node starts again, also without `retries`.
    """
    if is_sweep and options.parallel:  # an array: what is evicted or deleted is made again, and no policy concerns it
        return {}
    if is_sweep or (options.checkpoint is not None and not options.retries):
        codes = (sealing.REQUEUED, *(CRASHES if options.retries else ()))
        again = [{"exitCode": code, "action": "RestartPod"} for code in codes]
        limit = min(3 + size * (1 + options.retries), 2**31 - 1)  # each pod counts, and one must not use up the others' restarts
        return {"maxRetry": limit, "policies": [{"event": "PodEvicted", "action": "RestartPod"}, *again]}
    if options.retries:
        never = [{"exitCode": code, "action": "TerminateJob"} for code in FOR_GOOD]
        policies = [*never, {"events": ["PodFailed", "PodEvicted"], "action": "RestartJob"}]
        return {"maxRetry": options.retries, "policies": policies}
    ends = [{"events": ["PodFailed", "PodEvicted"], "action": "TerminateJob"}] if options.gang.size > 1 else []
    if options.idempotent:
        return {
            "policies": [
                {"exitCode": sealing.REQUEUED, "action": "RestartJob"},
                {"event": "PodEvicted", "action": "RestartJob"},
                *ends,
            ]
        }
    return {"policies": ends} if ends else {}


def _grace(options: TaskOptions) -> int:
    """Return the seconds that a terminating pod has for its checkpoint."""
    return int((options.pod.get("spec") or {}).get("terminationGracePeriodSeconds", GRACE_SECONDS))


def _topology(topology: str | int) -> dict[str, Any]:
    limit = {"highestTierAllowed": topology} if isinstance(topology, int) else {"highestTierName": topology}
    return {"mode": "hard", **limit}


def seconds_of(timeout: float | str) -> int:
    """Return a timeout in whole seconds, at least one."""
    if isinstance(timeout, int | float):
        return max(1, round(timeout))
    try:
        return max(1, nanoseconds(timeout) // 1_000_000_000)
    except DurationError as error:
        raise Usage(f"task: timeout: {timeout!r} is no duration: {error}; give seconds, or `90s` and `1h30m`") from error


def _with_pod(spec: dict[str, Any], pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec with the user's changes in its pod template, merged by Kubernetes' merge keys."""
    template = {name: pod[name] for name in ("metadata", "spec") if name in pod}
    if not template or set(pod) - set(template):
        raise Usage(f"task: pod: has {', '.join(sorted(pod))}; give `metadata` and `spec`, as in a pod template")
    return with_patch(spec, {"tasks": [{"name": TASK, "template": template}]}, "pod")


def with_patch(spec: dict[str, Any], patch: Mapping[str, Any], option: str = "patch") -> dict[str, Any]:
    """Return the spec with the user's changes, merged like the patch of a JobFlow."""
    try:
        return dict(patched(spec, {"spec": patch})) if patch else spec
    except PatchError as error:
        raise Usage(f"task: {option}: {error}") from error


CODE: Final = "pyroclast"  # name of the volume and the mount of the function's Secret, which a command does not have


def command_job(
    command: Sequence[str],
    options: TaskOptions,
    surroundings: Surroundings,
    *,
    name: str,
    policies: Mapping[str, Any] | None = None,
) -> Document:
    """Return a Job whose pods run `command`. Each pod has its index in `PYROCLAST_INDEX`."""
    gang: Gang = options.gang
    template = pod_template(options, surroundings, secret="", world=gang.size)
    spec = template["spec"]
    (container,) = spec["containers"]
    container["command"] = list(command)
    if options.timeout is not None:
        spec["activeDeadlineSeconds"] = seconds_of(options.timeout)  # no runner ends it before
    container["volumeMounts"] = [each for each in container["volumeMounts"] if each["name"] != CODE]
    spec["volumes"] = [each for each in spec["volumes"] if each["name"] != CODE]
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"name": name, "namespace": surroundings.namespace},
        "spec": job_spec(options, surroundings, gang, template, policies=policies or {}),
    }
