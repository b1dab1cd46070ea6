"""The settings of the jobflow controller: Volcano's flags with Volcano's defaults."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar, Final

from pydantic import Field, field_validator

from pyroclast.runtime.fields import Controllers, Duration
from pyroclast.runtime.in_process.creation import COMMANDS_MUTATE, COMMANDS_VALIDATE
from pyroclast.runtime.in_process.jobs import PATHS as JOBS
from pyroclast.runtime.in_process.jobs import JobCreatorSettings

FLOW: Final = "jobflow-controller"
TEMPLATE: Final = "jobtemplate-controller"


class JobFlowSettings(JobCreatorSettings):
    """The flags of the jobflow controller."""

    WEBHOOKS: ClassVar = (*JOBS, COMMANDS_MUTATE, COMMANDS_VALIDATE)

    leader_elect_resource_name: str = Field("pyroclast-jobflow-controller", description="name of the Lease")
    controllers: Controllers = Field(("*",), description="which controllers run: name, -name, or * for all")
    worker_threads: int = Field(8, ge=1, description="how many JobFlows are reconciled at the same time")
    max_requeue_num: int = Field(
        15, description="failed tries to create a Job after which an Event is recorded; negative: no Event"
    )
    scheduler_name: str = Field(
        "volcano",
        description="scheduler of Jobs that name none, if the controller sets their defaults (see --in-process-webhooks)",
    )
    probe_workers: int = Field(32, ge=1, description="how many probes of pods run at the same time")
    probe_period: Duration = Field(timedelta(seconds=10), description="longest time between two runs of a probe")
    probe_timeout: Duration = Field(timedelta(seconds=1), description="time limit of one probe")
    probe_success_threshold: int = Field(1, ge=1, description="how many consecutive successes a probe needs")
    probe_host_network: bool = Field(
        default=False, description="also probe pods in the host network: users can then send requests to any port of a node"
    )
    probe_local_addresses: bool = Field(default=False, description="also probe loopback and link-local addresses")

    @field_validator("probe_period", "probe_timeout")
    @classmethod
    def _is_positive(cls, duration: timedelta) -> timedelta:
        if duration <= timedelta():
            raise ValueError("must be longer than 0s")
        return duration
