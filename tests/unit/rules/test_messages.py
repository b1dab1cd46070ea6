"""Every sentence of the webhooks is said by at least one case of the tables; the matrix tells by which.

`python -m tests.unit.rules.test_messages` prints it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyroclast.rules import cronjobs, hypernodes, jobflows, jobs, podgroups, pods, queues
from pyroclast.rules.queues import QueueLimits
from tests.unit.rules import test_flows, test_job_creation, test_job_update, test_other_kinds, test_queues
from tests.unit.rules.builders import QUEUES, job
from tests.unit.rules.test_job_creation import BOTH_TIERS, NOT_A_GRAPH

MESSAGES = (
    "No task specified in job spec",
    "The specified mpi master task was not found",
    BOTH_TIERS,
    "'minAvailable' is greater than 'replicas' in task: ",
    "duplicated task name ",
    "create pod with name ",
    "create job with name ",
    "spec.task[0].template.spec.containers[0].image: Required value.",
    "the cpu request isn't an integer in spec.task[0] container[0].",
    "job 'minAvailable' should not be greater than total replicas in tasks;",
    "unable to find job plugin: ",
    "unable to find job queue: queue.scheduling.volcano.sh ",
    "can only submit job to queue with state `Open`, queue `",
    "can not submit job to root queue;",
    "can only submit job to leaf queue, queue `",
    NOT_A_GRAPH,
    "must not specify event and exitCode simultaneously",
    "either event and exitCode should be specified",
    "invalid policy event",
    "invalid policy action",
    "duplicate event PodFailed  across different policy",
    "0 is not a valid error code",
    "duplicate exitCode 1",
    "if there's * here, no other policy should be here",
    "time: invalid duration ",
    "mountPath is required;",
    "duplicated mountPath: ",
    "conflict: If you want to use an existing PVC, just specify VolumeClaimName.If you want to create a new PVC",
    "invalid VolumeClaimName ",
    "'TotalPartitions' must be greater than 0 in task: ",
    "'PartitionSize' must be greater than 0 in task: ",
    "'Replicas' are not equal to TotalPartitions*PartitionSize in task: ",
    "'MinAvailable' is not equal to MinPartitions*PartitionSize in task: ",
    "'replicas' must be >= 0 in task: ",
    "'minAvailable' must be >= 0 in task: ",
    "'minAvailable' must be <= 'replicas' in task: ",
    "job 'minAvailable' must not be greater than total replicas",
    "job 'minAvailable' must be >= 0",
    "job 'minAvailable' must be > 0 unless all replicas are 0",
    "job updates may not add or remove tasks",
    "job updates may not change fields other than `minAvailable`, `tasks[*].replicas under spec` and `PriorityClassName`",
    "schedule is required, but got empty",
    "schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field",
    "schedule is not a valid cron expression",
    "timeZone must be nil or non-empty string, got empty string",
    "unknown timeZone",
    "timeZone can't be Local, and must be defined in https://www.iana.org/time-zones",
    "invalid timeZone",
    "cronJob name must be no more than 52 characters to accommodate job name suffix (max 63 total)",
    'invalid cronJob name "-": ',
    "unable to find queue: queue.scheduling.volcano.sh ",
    "can only submit PodGroup to queue with state `Open`, queue `closed` status is `Closed`.",
    "in subGroupPolicy 's': ",
    "must be greater than or equal to 0",
    "must be an integer",
    "deserved[cpu] must be >= guarantee[cpu]=1",
    "deserved[cpu]=1 must be >= guarantee[cpu]=2",
    "deserved[cpu]=2 must be <= capability[cpu]=1",
    "queue state must be in [Open Closed]",
    "volcano.sh/hierarchy must have the same length with volcano.sh/hierarchy-weights",
    "is invalid number: strconv.ParseFloat: parsing ",
    "must be larger than 0",
    "is not allowed to be in the sub path of ",
    "cannot use itself as parent",
    "exceeds the maximum allowed depth of 2",
    "failed to get parent queue nobody of queue q: ",
    "cannot be the parent queue of queue q because it has allocated Pods: 3",
    "root queue's resource attributes (capability, deserved, guarantee) cannot be modified",
    "exceeds its ancestor's capability=10",
    "parent queue p validation failed: sum of children's deserved (",
    "sum of children's guarantee (cpu 9000.00, memory 19327352832.00) exceeds parent's guarantee limit (",
    "is smaller than its descendants' max capability=12",
    "queue q validation failed: sum of children's guarantee (",
    "`default` queue can not be deleted",
    "`root` queue can not be deleted",
    'queue.scheduling.volcano.sh "nobody" not found',
    "queue busy cannot be deleted because it has allocated Pods: 3",
    "queue q1 can not be deleted because it has 1 child queues: q2",
    "it must be a positive integer",
    "invalid value strconv.Atoi: parsing ",
    "it must be a valid percentage which between 1% ~ 99%",
    "not allow configure multiple annotations <[volcano.sh/jdb-min-available volcano.sh/jdb-max-unavailable]> at same time",
    "[].spec.members: Invalid value: null: member must have at least one member",
    "member regexMatch pattern is invalid: error parsing regexp: missing closing ): ",
    "jobflow Flow is not DAG: vertex is not defined: ",
    "jobflow Flow is not DAG",
    "are both named a, but differ",
    "jobflow updates may not change entries that have started: ",
)


def said() -> Iterator[tuple[str, str]]:
    """Where a case stands, and what it is told."""
    limits = QueueLimits()
    for name, case in test_job_creation.REFUSED.items():
        yield f"job creation: {name}", jobs.validate_create(case[0], QUEUES).message
    yield "job creation: a closed queue", jobs.validate_create(job(queue="closed"), QUEUES).message
    for name, case in test_job_update.REFUSED.items():
        yield f"job update: {name}", jobs.validate_update(case[0], test_job_update.OLD).message
    for name, (given, _) in test_other_kinds.CRON_JOBS.items():
        yield f"cron job: {name}", cronjobs.validate(given, test_other_kinds.ZONES).message
    for name, (spec, _) in test_other_kinds.POD_GROUPS.items():
        yield f"pod group: {name}", podgroups.validate_create({"spec": spec}, QUEUES).message
    for name, (given, _) in test_queues.FIELDS.items():
        yield f"queue fields: {name}", queues.validate_create(given, test_queues.PATHS, limits).message
    for name, (given, depth, _) in test_queues.PARENTS.items():
        yield f"queue parents: {name}", queues.validate_create(given, test_queues.TREE, QueueLimits(max_depth=depth)).message
    for name, (given, others, _) in test_queues.HIERARCHIES.items():
        yield f"queue hierarchy: {name}", queues.validate_create(given, test_queues.FixedQueues(*others), limits).message
    grown = test_queues.queue("root", capability={"cpu": "1"})
    yield "queue update: the root", queues.validate_update(grown, test_queues.queue("root"), QUEUES, limits).message
    for name in ("default", "root", "nobody", "busy", "q1"):
        strict = QueueLimits(keep_allocated=True)
        yield f"queue deletion: {name}", queues.validate_delete(name, test_queues.TREE, strict).message
    for name, (budget, _) in test_other_kinds.BUDGETS.items():
        given = {"metadata": {"annotations": budget}, "spec": {"schedulerName": "volcano"}}
        yield f"pod: {name}", pods.validate_create(given, ("volcano",)).message
    yield "hyper node: no members", hypernodes.validate({"spec": {}}).message
    yield "hyper node: no expression", hypernodes.validate({"spec": {"members": [test_other_kinds.member("a(b")]}}).message
    for name, (given, _) in test_flows.GRAPHS.items():
        yield f"flow: {name}", jobflows.validate_create(given).message
    for name, (given, _) in test_flows.UPDATES.items():
        yield f"flow update: {name}", jobflows.validate_update(given, test_flows.OLD).message


SAID = list(said())


@pytest.mark.parametrize("message", MESSAGES)
def test_each_webhook_message_is_produced_by_a_test_case(message: str) -> None:
    assert [case for case, text in SAID if message in text]


if __name__ == "__main__":
    for message in MESSAGES:
        print(f"{message}\n    {'; '.join(case for case, text in SAID if message in text)}")
