"""Rules of CronJob: schedule, time zone and name. Faults of its template are warnings: each Job is checked at its creation."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from typing import Any

from pyroclast.resources.cron import CronError, Fields, parse
from pyroclast.rules.errors import invalid, required
from pyroclast.rules.jobs import check_template_spec
from pyroclast.rules.lookups import ANY_JOB, JobOptions
from pyroclast.rules.meaning import same_meaning
from pyroclast.rules.names import qualified_name
from pyroclast.rules.values import mapping, text
from pyroclast.rules.verdicts import Finding, Verdict, broken, found, verdict_of

NAME_LIMIT = 52
SHOWN_PROBLEMS = 3

_ZONE_PART = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")
_LOCAL = "timeZone can't be Local, and must be defined in https://www.iana.org/time-zones"


def validate(
    cron_job: Mapping[str, Any], zones: Container[str], options: JobOptions = ANY_JOB, *, old: Mapping[str, Any] | None = None
) -> Verdict:
    """Return the verdict on a new CronJob, or on changing `old`, which may always be suspended, also with a faulty template."""
    spec = mapping(cron_job.get("spec"))
    name = text(mapping(cron_job.get("metadata")).get("name"))
    findings, in_name = list(_check_spec(spec, zones)), list(_check_name(name))
    template = mapping(mapping(spec.get("jobTemplate")).get("spec"))
    in_template = check_template_spec(template, "spec.jobTemplate.spec", options, name=name, job_name=f"{name}-{'0' * 10}")
    warnings = list(_schedule_warnings(spec))
    if old is not None and same_meaning(template, mapping(mapping(mapping(old.get("spec")).get("jobTemplate")).get("spec"))):
        problems = [error for finding in in_template for error in finding.errors]
        warnings += [f"{error}; its jobs will be refused" for error in problems[:SHOWN_PROBLEMS]]
        in_template = []
    said = "".join(finding.sentence for finding in findings).strip()
    verdict = verdict_of([*findings, *in_name, *in_template], warnings=tuple(warnings))
    sentences = (finding.sentence.strip() for finding in (*in_name, *in_template))
    return Verdict("; ".join(filter(None, [said, *sentences])), verdict.causes, verdict.warnings)


def _check_spec(spec: Mapping[str, Any], zones: Container[str]) -> Iterator[Finding]:
    yield from _check_schedule(text(spec.get("schedule")))
    zone = spec.get("timeZone")
    if isinstance(zone, str):
        yield from _check_zone(zone, zones)


def _check_schedule(schedule: str) -> Iterator[Finding]:
    path = "spec.schedule"
    if not schedule:
        sentence = "schedule is required, but got empty"
        yield found(f" {sentence}", required(path, f"{sentence}; write one like */5 * * * *"))
    elif "TZ" in schedule:
        yield broken(
            path, schedule, "schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field", before=" "
        )
    else:
        try:
            parse(schedule)
        except CronError as error:
            sentence = "schedule is not a valid cron expression"
            yield found(sentence, invalid(path, schedule, f"{sentence}: {error}"))


def _check_zone(zone: str, zones: Container[str]) -> Iterator[Finding]:
    path = "spec.timeZone"
    if not zone:
        yield broken(path, zone, "timeZone must be nil or non-empty string, got empty string", before=" ")
        return
    for part in zone.split("/"):
        if part in (".", "..") or part.startswith("-") or not _ZONE_PART.fullmatch(part):
            yield found(" unknown timeZone", invalid(path, zone, f'unknown timeZone: "{part}" is no part of a name'))
    if zone.lower() == "local":
        yield found(f" {_LOCAL}", invalid(path, zone, _LOCAL))
    elif zone not in zones:
        sentence = "invalid timeZone"
        yield found(f" {sentence}", invalid(path, zone, f"{sentence}; it must be in the time zone database, like Europe/Berlin"))


def _check_name(name: str) -> Iterator[Finding]:
    path = "metadata.name"
    if len(name.encode(errors="replace")) > NAME_LIMIT:
        yield broken(path, name, "cronJob name must be no more than 52 characters to accommodate job name suffix (max 63 total)")
    elif problems := qualified_name(name):
        yield broken(path, name, f'invalid cronJob name "{name}": {"; ".join(problems)}')


def _schedule_warnings(spec: Mapping[str, Any]) -> Iterator[str]:
    try:
        schedule = parse(text(spec.get("schedule")))
    except CronError:
        schedule = None
    if isinstance(schedule, Fields) and not schedule.can_fire:
        yield f"spec.schedule: {text(spec.get('schedule'))} never fires"
