"""Rules for what the job controller will make for a new Job: its pods with the changes of plugins, and the objects beside them.

Each part of such a Job is valid by itself. The parts clash only in the objects that are made of them, so these are checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyroclast.rules.errors import ErrorType, FieldError, forbidden, invalid
from pyroclast.rules.jobs.warnings import pod_specs
from pyroclast.rules.lookups import JobOptions
from pyroclast.rules.names import dns_label, dns_subdomain
from pyroclast.rules.podspecs import check_template
from pyroclast.rules.podspecs.annotations import check_annotation_names
from pyroclast.rules.values import Json, items, mapping, text
from pyroclast.rules.verdicts import Finding, untold

_STEP: Final = re.compile(r"([^.\[]+)|\[(\d+)\]")


def check_made(job: Mapping[str, Any], options: JobOptions, path: str = "spec") -> Iterator[Finding]:
    """Yield the faults of the first object that the API server would refuse, of those that are made for a valid Job.

    `path`: where the user wrote the spec of the Job.
    """
    spec, name = mapping(job.get("spec")), text(mapping(job.get("metadata")).get("name"))
    tasks = items(spec.get("tasks"))
    for maker, manifest, index in options.made(job) if name else ():
        if index is None:
            errors = list(_of_object(maker, manifest, name))
        else:
            template = mapping(mapping(tasks[index]).get("template"))
            errors = list(_of_pod(manifest, template, f"{path}.tasks[{index}].template", name))
        if errors:
            yield from map(untold, errors)
            return


def check_priority(spec: Mapping[str, Any], path: str) -> Iterator[Finding]:
    """Yield a fault for each pod template with a `priority` beside a class, which alone gives pods their priority."""
    for place, pod in list(pod_specs(spec, path))[1:]:
        name = text(pod.get("priorityClassName")) or text(spec.get("priorityClassName"))
        if name and pod.get("priority") is not None:
            why = f'the API server gives the pods the priority of PriorityClass "{name}"; remove this field'
            yield untold(forbidden(f"{place}.priority", why))


def _of_object(maker: str, manifest: Mapping[str, Any], name: str) -> Iterator[FieldError]:
    kind, meta = text(manifest.get("kind")), mapping(manifest.get("metadata"))
    own = text(meta.get("name"))
    for problem in (dns_label if kind == "Service" else dns_subdomain)(own):
        yield invalid("metadata.name", name, f'{maker} needs the {kind} "{own}", but its name {problem}')
    errors: list[FieldError] = []
    check_annotation_names(mapping(meta.get("annotations")), "metadata.annotations", errors)
    yield from errors


def _of_pod(manifest: Mapping[str, Any], template: Mapping[str, Any], path: str, name: str) -> Iterator[FieldError]:
    """Yield the faults of a pod that its template does not have, at the nearest field that the user wrote."""
    pod = {"metadata": manifest["metadata"], "spec": manifest["spec"]}
    before = {str(error) for error in check_template(template, task_name="t")}
    for error in check_template(pod, task_name="t"):
        if str(error) in before or error.type is ErrorType.NOT_FOUND:  # a volume that was reported before
            continue
        inside = error.path.removeprefix("template.")
        place = _written(inside, {"spec": template.get("spec"), **mapping(template.get("metadata"))})
        how = f"{error.body}, as {inside} of the pods that the job controller makes"
        is_derived = error.value == name or str(error.value).startswith(f"{name}-")
        if place != inside and is_derived and error.type is ErrorType.INVALID:
            yield invalid("metadata.name", name, how)
        else:
            yield forbidden(f"{path}.{place}", how)


def _written(path: str, template: Json) -> str:
    """Return the longest part of `path` that exists in `template`."""
    end = 0
    for step in _STEP.finditer(path):
        key: str | int = step[1] if step[1] is not None else int(step[2])
        try:
            template = template[key]
        except (KeyError, IndexError, TypeError):
            break
        end = step.end()
    return path[:end] or "spec"
