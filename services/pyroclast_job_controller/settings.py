"""The settings of the job controller: Volcano's flags with Volcano's defaults, and the names of its controllers."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar, Final

from pydantic import Field, field_validator

from pyroclast.lifecycle.shards import DEFAULT as DEFAULT_SHARES
from pyroclast.lifecycle.shards import ShardingError, from_flags
from pyroclast.runtime.fields import Controllers, Duration, Names
from pyroclast.runtime.in_process.creation import PODS_MUTATE, PODS_VALIDATE
from pyroclast.runtime.in_process.jobs import PATHS as JOBS
from pyroclast.runtime.in_process.jobs import JobCreatorSettings
from pyroclast_job_controller.podgroup.controller import PATHS as GROUPS

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


class ControllerSettings(JobCreatorSettings):
    """The flags of the job controller.

    A flag for a missing feature is accepted without effect, as its help says.
    """

    WEBHOOKS: ClassVar = (*GROUPS, *JOBS, PODS_MUTATE, PODS_VALIDATE)

    leader_elect_resource_name: str = Field("vc-controller-manager", description="name of the Lease")
    controllers: Controllers = Field(DEFAULT, description="which controllers run: name, -name, or * for all")
    worker_threads: int = Field(16, ge=1, description="how many Jobs are reconciled at the same time")
    worker_threads_for_queue: int = Field(5, ge=1, description="how many Queues are reconciled at the same time")
    worker_threads_for_podgroup: int = Field(5, ge=1, description="how many pods without a Job are reconciled at the same time")
    worker_threads_for_gc: int = Field(5, ge=1, description="how many finished Jobs are reconciled at the same time")
    worker_threads_for_cronjob: int = Field(3, ge=1, description="how many CronJobs are reconciled at the same time")
    place_before_pods: bool = Field(
        default=False,
        description="let the scheduler place simple gangs before their pods exist; the scheduler needs the same flag",
    )
    one_pod_without_group: bool = Field(
        default=False,
        description="create no PodGroup for a Job of one pod: the pod describes its group",
    )
    publish_native_groups: bool = Field(
        default=False,
        description="also show the gang of each new Job as a PodGroup of scheduling.k8s.io, if the cluster serves that kind",
    )
    worker_threads_for_hyperjob: int = Field(5, ge=1, description="how many HyperJobs are reconciled at the same time")
    max_requeue_num: int = Field(
        15, description="failed tries after which a Job is terminated or a Command for a queue is dropped; negative: no limit"
    )
    give_up_lost_pods_after: Duration = Field(
        timedelta(),
        ge=timedelta(),
        description="force the deletion of a Job's pod on a lost node this long after the pod should have ended; 0s: never",
    )
    scheduler_name: Names = Field(("volcano",), description="scheduler whose plain pods get a PodGroup; may be repeated")
    inherit_owner_annotations: bool = Field(
        default=True, description="copy annotations of the pods' owners to PodGroups of plain pods"
    )
    controller_configmap: str = Field(
        "", description="ConfigMap with the sources of HyperNodes; default: $HELM_RELEASE_NAME-controller-configmap"
    )
    scheduler_configs: Names = Field(
        DEFAULT_SHARES,
        description="share of a scheduler, as name:type:minUtil:maxUtil:preferWarmup:minNodes:maxNodes; may be repeated",
    )
    shard_sync_period: Duration = Field(timedelta(seconds=60), description="period of the distribution of nodes among schedulers")
    enable_node_event_trigger: bool = Field(
        default=True, description="distribute nodes among schedulers also after changes of nodes or their loads"
    )
    sharding_configmap: str = Field("volcano-sharding-configmap", description="ConfigMap that overrides --scheduler-configs")
    sharding_configmap_namespace: str = Field("volcano-system", description="namespace of --sharding-configmap")

    @field_validator("scheduler_configs")
    @classmethod
    def _readable(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        try:
            from_flags(texts, period=0, on_events=True)
        except ShardingError as error:
            raise ValueError(str(error)) from None
        return texts
