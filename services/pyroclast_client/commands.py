"""A command as a Job: the options of `task` for programs that bring their own way to run Python in a pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyroclast.api.types import JOBS
from pyroclast_client.compilation import Surroundings, job_spec, pod_template
from pyroclast_client.documents import Document
from pyroclast_client.options import Gang, TaskOptions

__all__ = ["command_job"]

CODE: Final = "pyroclast"  # the volume and the mount of the Secret with a function, which a command does not have


def command_job(
    command: Sequence[str],
    options: TaskOptions,
    surroundings: Surroundings,
    *,
    name: str,
    policies: Mapping[str, Any] | None = None,
) -> Document:
    """The Job whose pods run `command`, each with its number in `PYROCLAST_INDEX`.

    Raises:
        Usage: no image is named, or an option makes no sense.
    """
    gang: Gang = options.gang
    template = pod_template(options, surroundings, secret="", world=gang.size)
    spec = template["spec"]
    (container,) = spec["containers"]
    container["command"] = list(command)
    container["volumeMounts"] = [each for each in container["volumeMounts"] if each["name"] != CODE]
    spec["volumes"] = [each for each in spec["volumes"] if each["name"] != CODE]
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"name": name, "namespace": surroundings.namespace},
        "spec": job_spec(options, surroundings, gang, template, policies=policies or {}),
    }
