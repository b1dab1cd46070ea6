"""Makes a Job of a command, with the options of `task`. For programs that start Python in a pod in their own way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyroclast.api.types import JOBS
from pyroclast_client.compilation import Surroundings, job_spec, pod_template
from pyroclast_client.documents import Document
from pyroclast_client.options import Gang, TaskOptions

CODE: Final = "pyroclast"  # name of the volume and the mount of the function's Secret, which a command does not have


def command_job(
    command: Sequence[str],
    options: TaskOptions,
    surroundings: Surroundings,
    *,
    name: str,
    policies: Mapping[str, Any] | None = None,
) -> Document:
    """Return a Job whose pods run `command`. Each pod has its index in `PYROCLAST_INDEX`.

    Raises:
        Usage: no image is named, or an option is invalid.
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
