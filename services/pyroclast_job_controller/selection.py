"""The names of the controllers, and which of them run by default."""

from __future__ import annotations

from typing import Final

DEFAULT: Final = ("*", "-sharding-controller")
JOB: Final = "job-controller"
QUEUE: Final = "queue-controller"
POD_GROUP: Final = "pg-controller"
GC: Final = "gc-controller"
CRON_JOB: Final = "cronjob-controller"
HYPER_NODE: Final = "hyperNode-controller"
COLOCATION: Final = "colocation-config-controller"
SHARDING: Final = "sharding-controller"
HYPER_JOB: Final = "hyperjob-controller"
"""Only Pyroclast has this controller. Volcano's source tree contains none."""
