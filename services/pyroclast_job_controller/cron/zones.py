"""Time zones by name, the time zone of this machine, and the schedule of a CronJob in its time zone."""

from __future__ import annotations

import os
from datetime import UTC, tzinfo
from functools import lru_cache
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import structlog

from pyroclast.api.records import CronJob
from pyroclast.lifecycle.notices import Notice, warning
from pyroclast.resources.cron import CronError, parse, split_zone
from pyroclast_job_controller.core.cron.clock import Clock

log = structlog.get_logger()

_LOCAL_FILE: Final = Path("/etc/localtime")


class UnknownZone(ValueError):
    """No time zone has that name."""


@lru_cache(maxsize=1024)
def zone_of(name: str) -> tzinfo:
    """Return the time zone of that name. An empty name means UTC.

    Raises:
        UnknownZone: no time zone has that name.
    """
    if not name:
        return UTC
    if name == "Local":
        return local_zone()
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise UnknownZone(f"unknown time zone {name}") from None


@lru_cache(maxsize=1)
def local_zone() -> tzinfo:
    """Return the time zone of this process: from `TZ`, from the configuration of the machine, or UTC."""
    name = os.environ.get("TZ", "").removeprefix(":")
    if name:
        try:
            return zone_of(name)
        except UnknownZone:
            return UTC
    try:
        with _LOCAL_FILE.open("rb") as file:
            return ZoneInfo.from_file(file)
    except (OSError, ValueError):
        return UTC


def clock_of(cron_job: CronJob) -> tuple[Clock | None, tuple[Notice, ...]]:
    """Return the schedule of a CronJob, and the Events about it. The schedule is None when it is invalid."""
    text, zone, notices = cron_job.spec.schedule, cron_job.spec.time_zone, list[Notice]()
    prefix, schedule = split_zone(text)
    try:
        here = local_zone() if zone is None else zone_of(zone)
        if "TZ" in text:
            note = "If set, the TimeZone field will be ignored during execution."
            what = f'CRON_TZ or TZ in the schedule "{text}" is not officially supported. {note}'
            notices.append(warning("UnsupportedSchedule", what))
            zone = prefix
            here = local_zone() if prefix is None else zone_of(prefix)
        return Clock(parse(schedule), here), tuple(notices)
    except UnknownZone as error:
        notices.append(warning("InvalidTimeZone", f'Invalid time zone "{zone}": {error}'))
    except CronError as error:
        notices.append(warning("UnParseableCronJobSchedule", f"unparseable schedule for cronjob: {text}"))
        log.warning("cronjob.unparseable", cronjob=str(cron_job.key), schedule=text, reason=str(error))
    return None, tuple(notices)
