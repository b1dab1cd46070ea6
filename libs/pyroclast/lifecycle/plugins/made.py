"""The built-in plugins, and the objects that the job controller will make for a Job that does not exist yet.

Admission checks these objects with the rules of their kinds, so that no Job is admitted whose pods can never be made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from pyroclast.api.jobplugins import BUILT_IN
from pyroclast.api.records import Job, reading
from pyroclast.lifecycle.gang import members, podgroups, pods
from pyroclast.lifecycle.jobplugins import JobPlugin, Manifest, PluginError
from pyroclast.lifecycle.plugins.env import EnvPlugin
from pyroclast.lifecycle.plugins.hcclrank import HcclrankPlugin
from pyroclast.lifecycle.plugins.mpi import MpiPlugin
from pyroclast.lifecycle.plugins.pytorch import PytorchPlugin
from pyroclast.lifecycle.plugins.ray import RayPlugin
from pyroclast.lifecycle.plugins.slurm import SlurmPlugin
from pyroclast.lifecycle.plugins.ssh import SshPlugin
from pyroclast.lifecycle.plugins.svc import SvcPlugin
from pyroclast.lifecycle.plugins.tensorflow import TensorflowPlugin

BUILT_IN_PLUGINS: Final[Mapping[str, type[JobPlugin]]] = {
    plugin.name: plugin
    for plugin in (
        EnvPlugin,
        SlurmPlugin,
        SvcPlugin,
        SshPlugin,
        TensorflowPlugin,
        MpiPlugin,
        PytorchPlugin,
        RayPlugin,
        HcclrankPlugin,
    )
}


_UID: Final = "00000000-0000-0000-0000-000000000000"
"""The UID in the names of objects for a Job without one, as long as those of the API server."""


class MadeObject(NamedTuple):
    """An object that the controller will make. `maker`: who asks for it. `task`: the index of its task; None if it is no pod."""

    maker: str
    manifest: Manifest
    task: int | None = None


def made_for(body: Mapping[str, Any]) -> Iterator[MadeObject]:
    """Yield the objects for the Job `body`: its PodGroup, those of its built-in plugins, and the first pod of each task.

    The cost does not grow with the replicas: lists of hosts have one host for each task. Nothing is yielded for a Job that cannot
    be read, and no objects of a plugin that lacks something; other rules report both.
    """
    try:
        job = members.named(reading.convert(dict(body), Job))
    except (msgspec.ValidationError, TypeError, ValueError):
        return
    meta = msgspec.structs.replace(job.metadata, uid=job.metadata.uid or _UID)
    job = msgspec.structs.replace(job, metadata=meta)
    yield MadeObject("the job controller", podgroups.manifest(job, {}))
    tasks = tuple(msgspec.structs.replace(task, replicas=min(1, task.replicas)) for task in job.spec.tasks)
    job = msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, tasks=tasks))
    plugins = [BUILT_IN_PLUGINS[name](job.spec.plugins[name]) for name in BUILT_IN if name in job.spec.plugins]
    for plugin in plugins:
        try:
            items = plugin.objects(job)
        except PluginError:
            continue
        for item in items:
            named = {"name": item.name, "namespace": job.metadata.namespace}
            yield MadeObject(f"plugin {plugin.name}", {"kind": item.kind.kind, "metadata": named, **item.body})
    for index, task in enumerate(tasks):
        manifest = pods.build(job, task, 0)
        for plugin in plugins:
            try:
                manifest = plugin.pod(job, task, 0, manifest)
            except PluginError:
                continue
        yield MadeObject("the job controller", manifest, index)
