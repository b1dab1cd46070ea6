"""The command group `vcctl job`: Volcano's commands, and `explain`."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pyroclast_cli.compatible import jobs
from pyroclast_cli.views.explain import EXPLAIN

JOB: Final = replace(jobs.JOB, children=(*jobs.JOB.children, EXPLAIN))
