"""What is refused when a Job is made: the pinned cases, and every sentence."""

from __future__ import annotations

from typing import Any

import pytest

from pyroclast.api.schedulers import Schedulers
from pyroclast.lifecycle.plugins.made import made_for
from pyroclast.rules import cronjobs, hyperjobs, jobs, jobtemplates
from pyroclast.rules.jobs.defaults import default_warnings
from pyroclast.rules.jobs.warnings import class_warnings, scheduler_warnings
from pyroclast.rules.lookups import JobOptions
from tests.unit.rules.builders import QUEUES, job, task, template

BOTH_TIERS = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"
NOT_A_GRAPH = "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)"
TWO_TIERS = {"highestTierAllowed": 1, "highestTierName": "volcano.sh/hypernode"}
NAME_TIER = {"highestTierName": "volcano.sh/hypernode"}


def policy(**fields: Any) -> dict[str, Any]:
    return {"action": "AbortJob", **fields}


def parts(total: int | None = 2, size: int = 2, **more: Any) -> dict[str, Any]:
    given = {"partitionSize": size, **more}
    return given if total is None else {"totalPartitions": total, **given}


ALLOWED = {
    "one task of one pod": job(),
    "a policy on eviction": job(policies=[{"event": "PodEvicted", "action": "RestartTask"}]),
    "a leaf two levels below the root": job(queue="leaf"),
    "a queue that was made a moment ago": job(queue="fresh"),
    "a privileged container": job(task(template=template(securityContext={"privileged": True}))),
    "a dependency on another task": job(task("t1", dependsOn={"name": ["t2"]}), task("t2")),
    "a dependency listed twice": job(task("t1", dependsOn={"name": ["t2", "t2"]}), task("t2")),
    "a chain of dependencies": job(
        task("t1", dependsOn={"name": ["t2", "t3"]}), task("t2", dependsOn={"name": ["t3"]}), task("t3", dependsOn={"name": []})
    ),
    "tiers by name only": job(task(partitionPolicy=parts(1, 1, networkTopology=NAME_TIER)), networkTopology=NAME_TIER),
    "partitions without a minimum of the task": job(task(replicas=8, partitionPolicy=parts(2, 4, minPartitions=1))),
    "partitions whose minimum fits": job(task(replicas=8, minAvailable=4, partitionPolicy=parts(4, 2, minPartitions=2))),
    "partitions without a minimum of their own": job(task(replicas=4, minAvailable=4, partitionPolicy=parts(2, 2))),
    "partitions whose number follows the replicas": job(task(replicas=5, partitionPolicy=parts(None, 2))),
    "mpi with launcher and worker": job(task("launcher"), task("worker"), plugins={"mpi": ["--master=launcher"]}),
    "mpi with a launcher only": job(task("launcher"), plugins={"mpi": ["--master", "launcher"]}),
    "a volume without any claim": job(volumes=[{"mountPath": "/var"}]),
    "the same event for job and task": job(task(policies=[policy(event="PodFailed")]), policies=[policy(event="PodFailed")]),
    "an event twice in one policy": job(policies=[policy(event="PodFailed", events=["PodFailed", "PodEvicted"])]),
    "exit codes beyond a byte": job(policies=[policy(exitCode=-1), policy(exitCode=300)]),
    "a policy on anything besides one on an exit code": job(policies=[policy(event="*"), policy(exitCode=3)]),
    "a negative timeout": job(policies=[policy(event="PodFailed", timeout="-5s")]),
    "whole cores under a NUMA policy": job(
        task(topologyPolicy="single-numa-node", template=template(resources={"limits": {"cpu": "2000m"}}))
    ),
    "a suspended job of another controller": job(suspend=True, managedBy="example.com/queue_1"),
    "jobs before this one": job(
        after=[
            {"job": "build", "condition": "Ended"},
            {"selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]}},
            {"job": "job-1", "kind": "BatchJob"},
        ],
        afterPolicy="Wait",
    ),
    "a deadline after the creation, and a longest run time": job(
        deadline="36h", maxRunTime="1h30m", onTimeout="Requeue", signalBefore={"seconds": 60, "signal": "SIGUSR1"}
    ),
    "a deadline at a time": job(deadline="2030-01-31T23:59:60.5+01:00", signalBefore={"seconds": 1}),
    "the largest ordinal counts, not the number of the task": job(
        *(task(f"t{n}") for n in range(11)), name="j" * 57, minAvailable=11
    ),
}


@pytest.mark.parametrize("given", ALLOWED.values(), ids=ALLOWED.keys())
def test_valid_job_is_allowed(given: dict[str, Any]) -> None:
    assert jobs.validate_create(given, QUEUES).message == ""


REFUSED: dict[str, tuple[dict[str, Any], str, tuple[str, ...]]] = {
    "no tasks": (
        {"metadata": {"name": "j"}, "spec": {"minAvailable": 1}},
        "No task specified in job spec",
        ("spec.tasks",),
    ),
    "no spec": ({"metadata": {"name": "j"}}, "No task specified in job spec", ("spec.tasks",)),
    "mpi without its master": (
        job(plugins={"mpi": ["--master=launcher"]}),
        "The specified mpi master task was not found",
        ("spec.plugins.mpi",),
    ),
    "both tiers for the job": (job(networkTopology=TWO_TIERS), BOTH_TIERS, ("spec.networkTopology.highestTierName",)),
    "both tiers for a partition": (
        job(task(partitionPolicy=parts(1, 1, networkTopology=TWO_TIERS))),
        BOTH_TIERS,
        ("spec.tasks[0].partitionPolicy.networkTopology.highestTierName",),
    ),
    "both tiers for both": (
        job(task(partitionPolicy=parts(1, 1, networkTopology=TWO_TIERS)), networkTopology=TWO_TIERS),
        BOTH_TIERS + BOTH_TIERS,
        ("spec.networkTopology.highestTierName", "spec.tasks[0].partitionPolicy.networkTopology.highestTierName"),
    ),
    "task minimum above its replicas": (
        job(task(minAvailable=2)),
        "'minAvailable' is greater than 'replicas' in task: task-1, job: job-1;",
        ("spec.tasks[0].minAvailable",),
    ),
    "two tasks of one name": (
        job(task("duplicated-task-1"), task("duplicated-task-1")),
        "duplicated task name duplicated-task-1;",
        ("spec.tasks[1].name",),
    ),
    "an event twice": (
        job(policies=[policy(event="PodFailed"), policy(event="PodFailed", action="RestartJob")]),
        (
            "1 error occurred:\n\t* duplicate event PodFailed  across different policy\n\n valid events are [* JobUpdated "
            "PodEvicted PodFailed PodPending TaskCompleted TaskFailed Unknown], valid actions are [AbortJob CompleteJob "
            "RestartJob RestartPartition RestartPod RestartTask ResumeJob TerminateJob];"
        ),
        ("spec.policies[1].event",),
    ),
    "minimum above all replicas": (
        job(minAvailable=2),
        "job 'minAvailable' should not be greater than total replicas in tasks;",
        ("spec.minAvailable",),
    ),
    "negative replicas": (
        job(task(replicas=-1)),
        "job 'minAvailable' should not be greater than total replicas in tasks;",
        ("spec.minAvailable",),
    ),
    "an unknown plugin": (job(plugins={"big_plugin": []}), "unable to find job plugin: big_plugin;", ("spec.plugins",)),
    "event and exit code": (
        job(policies=[policy(event="PodFailed", exitCode=1)]),
        "must not specify event and exitCode simultaneously",
        ("spec.policies[0].exitCode",),
    ),
    "neither event nor exit code": (
        job(policies=[policy()]),
        "either event and exitCode should be specified",
        ("spec.policies[0].event",),
    ),
    "an event that is none": (
        job(policies=[policy(event="PodRunning")]),
        'spec.policies: Invalid value: "PodRunning": invalid policy event',
        ("spec.policies[0].event",),
    ),
    "an action that is none": (
        job(task(policies=[policy(event="PodFailed", action="SyncJob")])),
        'spec.tasks.policies: Invalid value: "SyncJob": invalid policy action',
        ("spec.tasks[0].policies[0].action",),
    ),
    "an exit code without action": (
        job(policies=[{"exitCode": 3}]),
        'spec.policies: Invalid value: "": invalid policy action',
        ("spec.policies[0].action",),
    ),
    "exit code 0": (job(policies=[policy(exitCode=0)]), "0 is not a valid error code", ("spec.policies[0].exitCode",)),
    "an exit code twice": (
        job(policies=[policy(exitCode=1), policy(exitCode=1)]),
        "duplicate exitCode 1",
        ("spec.policies[1].exitCode",),
    ),
    "anything and one more, of the job": (
        job(policies=[policy(event="*"), policy(event="PodFailed")]),
        "if there's * here, no other policy should be here",
        ("spec.policies[0]",),
    ),
    "anything and one more, of a task": (
        job(task(policies=[policy(event="*"), policy(event="PodFailed")])),
        "if there's * here, no other policy should be here",
        ("spec.tasks[0].policies[0]",),
    ),
    "anything and one more, which is at fault itself": (
        job(policies=[policy(event="*"), policy(event="PodFailed", action="X")]),
        '1 error occurred:\n\t* spec.policies: Invalid value: "X": invalid policy action\n\n',
        ("spec.policies[1].action", "spec.policies[0]"),
    ),
    "anything and one more before the fault": (
        job(policies=[policy(event="*"), policy(events=["PodFailed", "OutOfSync"])]),
        (
            '2 errors occurred:\n\t* spec.policies: Invalid value: "OutOfSync": invalid policy event\n'
            "\t* if there's * here, no other policy should be here\n\n"
        ),
        ("spec.policies[1].event", "spec.policies[0]"),
    ),
    "two tasks of one name, the second without enough replicas": (
        job(task("a"), task("a", minAvailable=2), task("b"), minAvailable=3),
        (
            "'minAvailable' is greater than 'replicas' in task: a, job: job-1; duplicated task name a; "
            "job 'minAvailable' should not be greater than total replicas in tasks;"
        ),
        ("spec.tasks[1].minAvailable", "spec.tasks[1].name", "spec.minAvailable"),
    ),
    "two tasks of one name and a dependency": (
        job(task("a", dependsOn={"name": []}), task("a")),
        f"duplicated task name a; {NOT_A_GRAPH};",
        ("spec.tasks[1].name",),
    ),
    "a timeout that is none": (
        job(policies=[policy(event="PodFailed", timeout="soon")]),
        'time: invalid duration "soon"',
        ("spec.policies[0].timeout",),
    ),
    "an estimate that is none": (
        job(runningEstimate="5"),
        'time: missing unit in duration "5"',
        ("spec.runningEstimate",),
    ),
    "a pause between restarts that is none": (
        job(retry={"backoff": "5"}),
        'time: missing unit in duration "5"',
        ("spec.retry.backoff",),
    ),
    "a negative window of retries": (
        job(retry={"resetAfter": "-1h"}),
        "must not be negative",
        ("spec.retry.resetAfter",),
    ),
    "a longest pause below the first": (
        job(retry={"backoff": "1m", "maxBackoff": "30s"}),
        "is shorter than backoff",
        ("spec.retry.maxBackoff",),
    ),
    "a controller without a domain": (job(managedBy="queue"), "must be a domain-prefixed path", ("spec.managedBy",)),
    "a controller with a bad domain": (job(managedBy="a..b/c"), "must be a domain-prefixed path", ("spec.managedBy",)),
    "a job after nothing": (job(after=[{"condition": "Ended"}]), "must set one of job and selector", ("spec.after[0]",)),
    "a job after both": (job(after=[{"job": "a", "selector": {}}]), "must set one of job and selector", ("spec.after[0]",)),
    "a job after itself": (job(after=[{"job": "a"}, {"job": "job-1"}]), "cannot run after itself", ("spec.after[1].job",)),
    "the same index without an array": (job(after=[{"job": "a", "index": "same"}]), "index same needs", ("spec.after[0].index",)),
    "a selector without values": (
        job(after=[{"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}]),
        "must be specified when `operator` is 'In'",
        ("spec.after[0].selector.matchExpressions[0].values",),
    ),
    "no time to run": (job(maxRunTime="0h"), "must be a duration above 0", ("spec.maxRunTime",)),
    "a deadline on no day": (job(deadline="2030-13-01T00:00:00Z"), "must be an RFC 3339 time", ("spec.deadline",)),
    "a deadline before the creation": (job(deadline="-1h"), "must be an RFC 3339 time", ("spec.deadline",)),
    "a timeout without a time": (job(onTimeout="Fail"), "only with maxRunTime", ("spec.onTimeout",)),
    "a signal before nothing": (job(signalBefore={"seconds": 1}), "only with maxRunTime or deadline", ("spec.signalBefore",)),
    "a signal that does not exist": (
        job(maxRunTime="1h", signalBefore={"seconds": 1, "signal": "HELLO"}),
        "must be the name of a signal",
        ("spec.signalBefore.signal",),
    ),
    "a volume without mount path": (
        job(volumes=[{"volumeClaimName": "x"}]),
        "mountPath is required;",
        ("spec.volumes[0].mountPath",),
    ),
    "a mount path twice": (
        job(volumes=[{"mountPath": "/var", "volumeClaimName": "x"}, {"mountPath": "/var", "volumeClaimName": "y"}]),
        "duplicated mountPath: /var;",
        ("spec.volumes[1].mountPath",),
    ),
    "claim and claim name": (
        job(volumes=[{"mountPath": "/var", "volumeClaimName": "x", "volumeClaim": {}}]),
        (
            "conflict: If you want to use an existing PVC, just specify VolumeClaimName."
            "If you want to create a new PVC, you do not need to specify VolumeClaimName"
        ),
        ("spec.volumes[0].volumeClaimName",),
    ),
    "a claim name that is none": (
        job(volumes=[{"mountPath": "/var", "volumeClaimName": "X_y"}]),
        (
            "invalid VolumeClaimName X_y : [a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
            "'-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')]"
        ),
        ("spec.volumes[0].volumeClaimName",),
    ),
    "a queue that is not there": (
        job(queue="nowhere"),
        'unable to find job queue: queue.scheduling.volcano.sh "nowhere" not found;',
        ("spec.queue",),
    ),
    "the root queue": (job(queue="root"), "can not submit job to root queue;", ("spec.queue",)),
    "a queue with children": (
        job(queue="parent"),
        "can only submit job to leaf queue, queue `parent` has 1 child queues;",
        ("spec.queue",),
    ),
    "a dependency on no task": (
        job(task("t1", dependsOn={"name": ["t3"]})),
        f"{NOT_A_GRAPH};",
        ("spec.tasks[0].dependsOn.name",),
    ),
    "a task that waits for itself": (
        job(task("t2", dependsOn={"name": ["t2"]})),
        f"{NOT_A_GRAPH};",
        ("spec.tasks[0].dependsOn.name",),
    ),
    "tasks that wait for each other": (
        job(task("t1", dependsOn={"name": ["t2"]}), task("t2", dependsOn={"name": ["t1"]})),
        f"{NOT_A_GRAPH};",
        ("spec.tasks[0].dependsOn.name",),
    ),
    "a partition size below 1": (
        job(task(partitionPolicy=parts(1, -1))),
        "'PartitionSize' must be greater than 0 in task: task-1, job: job-1",
        ("spec.tasks[0].partitionPolicy.partitionSize",),
    ),
    "a number of partitions below 1": (
        job(task(partitionPolicy=parts(-1, 1))),
        "'TotalPartitions' must be greater than 0 in task: task-1, job: job-1",
        ("spec.tasks[0].partitionPolicy.totalPartitions",),
    ),
    "partitions that are not the replicas": (
        job(task(replicas=5, partitionPolicy=parts(3, 2))),
        "'Replicas' are not equal to TotalPartitions*PartitionSize in task: task-1, job: job-1",
        ("spec.tasks[0].partitionPolicy.totalPartitions",),
    ),
    "a minimum that is no number of partitions": (
        job(task(replicas=8, minAvailable=4, partitionPolicy=parts(4, 2, minPartitions=1))),
        "'MinAvailable' is not equal to MinPartitions*PartitionSize in task: task-1, job: job-1",
        ("spec.tasks[0].partitionPolicy.minPartitions",),
    ),
    "half a core under a NUMA policy": (
        job(task(topologyPolicy="restricted", template=template(resources={"requests": {"cpu": "1500m"}}))),
        "the cpu request isn't an integer in spec.task[0] container[0].",
        ("spec.tasks[0].template.spec.containers[0].resources.requests.cpu",),
    ),
    "names that become too long": (
        job(name="j" + "a" * 70),
        (
            f"create pod with name j{'a' * 70}-task-1-0 validate failed [name part must be no more than 63 bytes];"
            f"create job with name j{'a' * 70} validate failed [name part must be no more than 63 bytes]"
        ),
        ("spec.tasks[0].name", "metadata.name"),
    ),
    "a container without image": (
        job(task(template=template(image=""))),
        "spec.task[0].template.spec.containers[0].image: Required value.",
        ("spec.tasks[0].template.spec.containers[0].image",),
    ),
    "no template at all": (
        job({"name": "a", "replicas": 1}),
        "spec.task[0].template.spec.containers: Required value.",
        ("spec.tasks[0].template.spec.containers",),
    ),
}


@pytest.mark.parametrize(("given", "sentence", "fields"), REFUSED.values(), ids=REFUSED.keys())
def test_invalid_job_is_refused_with_message_and_field_paths(
    given: dict[str, Any], sentence: str, fields: tuple[str, ...]
) -> None:
    verdict = jobs.validate_create(given, QUEUES)
    assert sentence in verdict.message
    assert not verdict.message.startswith(" ")
    assert {cause.path for cause in verdict.causes} == set(fields)


@pytest.mark.parametrize("given", [each[0] for each in REFUSED.values()], ids=REFUSED.keys())
def test_each_sentence_of_a_refusal_is_covered_by_a_cause(given: dict[str, Any]) -> None:
    verdict = jobs.validate_create(given, QUEUES)
    told = " ".join(f"{cause.path}: {cause.body}" for cause in verdict.causes).replace("spec.tasks[0].", "spec.task[0].")
    for sentence in verdict.message.replace("\n", ";").replace("\t* ", "").split(";"):
        words = sentence.strip(" .").removeprefix("spec.policies: ").removeprefix("spec.tasks.policies: ")
        if words and "occurred:" not in words and "valid events are" not in words:
            assert words in told or BOTH_TIERS in words


def test_job_for_a_closed_queue_is_refused_with_the_message_of_volcano_and_no_causes() -> None:
    verdict = jobs.validate_create(job(queue="closed"), QUEUES)
    assert verdict.message == "can only submit job to queue with state `Open`, queue `closed` status is `Closed`;"
    assert verdict.causes == ()


def test_refusal_names_all_faults_at_once_after_the_message_of_volcano() -> None:
    given = job(
        task("a"),
        task("a"),
        task("b", minAvailable=5, template=template(image="")),
        queue="nowhere",
        policies=[policy(event="PodFailed", action="X"), policy(event="PodFailed", timeout="soon")],
        volumes=[{"mountPath": ""}, {"mountPath": "/a", "volumeClaimName": "_"}],
    )
    verdict = jobs.validate_create(given, QUEUES)
    assert verdict.message.startswith("duplicated task name a;1 error occurred:\n\t* spec.policies: Invalid value:")
    assert [cause.path for cause in verdict.causes] == [
        "spec.tasks[1].name",
        "spec.tasks[2].minAvailable",
        "spec.tasks[2].template.spec.containers[0].image",
        "spec.policies[0].action",
        "spec.policies[1].event",
        "spec.policies[1].timeout",
        "spec.volumes[0].mountPath",
        "spec.volumes[1].volumeClaimName",
        "spec.queue",
    ]


WARNED: dict[str, tuple[dict[str, Any], str]] = {
    "no claim": (job(volumes=[{"mountPath": "/a"}]), "spec.volumes[0]: no claim given, each pod gets an emptyDir"),
    "no minimum": (job(task(minAvailable=0), minAvailable=0), "spec.minAvailable: it is 0"),
    "an event that never comes": (job(policies=[policy(event="JobUpdated")]), "no policy fires on event JobUpdated"),
    "waiting without end": (job(policies=[policy(event="PodPending")]), "event PodPending without a timeout never fires"),
    "a negative timeout": (job(policies=[policy(event="PodFailed", timeout="-5s")]), "-5s is negative"),
    "gone at once": (job(ttlSecondsAfterFinished=0), "spec.ttlSecondsAfterFinished"),
    "more successes than pods": (job(minSuccess=3), "spec.minSuccess: 3 pods shall succeed, but there are only 1"),
    "a word for all": (
        job(task("a"), task("b", dependsOn={"name": ["a"], "iteration": "some"})),
        '"some" is neither any nor all, all is taken',
    ),
    "a dependency twice": (job(task("a"), task("b", dependsOn={"name": ["a", "a"]})), "a task named twice is one dependency"),
    "a queue that is too small": (
        job(task(replicas=2, template=template(resources={"requests": {"cpu": "1"}})), queue="small"),
        "the job needs more cpu to start than queue small may ever use (1)",
    ),
    "more partitions than there are": (
        job(task(replicas=2, minAvailable=None, partitionPolicy=parts(1, 2, minPartitions=2))),
        "2 partitions shall run, but there are only 1",
    ),
    "an argument that a plugin does not know": (
        job(plugins={"ssh": ["--ssh-port=1", "--no-root"]}),
        "spec.plugins.ssh[1]: flag provided but not defined: -no-root; this argument and those after it are passed over",
    ),
    "a port that pods cannot have": (
        job(plugins={"hcclrank": [], "tensorflow": ["--port=65536"]}),
        "spec.plugins.tensorflow: 65536 is no port (--port), it must be between 1 and 65535; nothing can listen on it",
    ),
    "a port that ssh does not take": (job(plugins={"ssh": ["--ssh-port=-10"]}), "-10 is no port (--ssh-port)"),
    "pytorch without a master": (job(plugins={"pytorch": []}), 'no task is named "master"; the plugin does nothing without it'),
    "ray without a head": (job(plugins={"ray": ["--head=boss"]}), 'no task is named "boss"; no pod of the job can be made'),
    "a last pod with too long a name": (
        job(task("t" * 5, replicas=11), name="j" * 55),
        f"spec.tasks[0].name: its last pod is {'j' * 55}-ttttt-10, a name too long for the host name that plugin svc gives it",
    ),
    "an exit code that no container has": (job(policies=[{"exitCode": 256, "action": "AbortJob"}]), "codes go from 0 to 255"),
    "a negative exit code": (job(policies=[{"exitCode": -1, "action": "AbortJob"}]), "ends with -1"),
    "no pods at all": (job(task(replicas=0), minAvailable=0), "Running without pods until it is scaled up"),
    "a gang that counts a task which waits": (
        job(task("prep"), task("work", replicas=2, dependsOn={"name": ["prep"]}), minAvailable=3),
        "spec.minAvailable: 3 pods must start together, but only 1 are made at first: task work waits for prep",
    ),
    "nobody who waits": (job(plugins={"svc": ["--wait-for-workers", "--launcher=l"]}), 'no task is named "l"; nothing waits'),
}


@pytest.mark.parametrize(("given", "words"), WARNED.values(), ids=WARNED.keys())
def test_questionable_job_is_allowed_with_a_warning(given: dict[str, Any], words: str) -> None:
    verdict = jobs.validate_create(given, QUEUES)
    assert verdict.allowed, verdict.message
    assert any(words in warning for warning in verdict.warnings), verdict.warnings


BIG, MOUNTS = "x" * (256 * 1024 - 60), [{"name": "v", "mountPath": "/etc/volcano"}]
CLAIM = [{"mountPath": "/data", "volumeClaimName": "c"}]


def mounting(*mounts: dict[str, Any], volume: str = "v") -> dict[str, Any]:
    return pod_of(template(volumeMounts=list(mounts)), volumes=[{"name": volume, "emptyDir": {}}])


def pod_of(made: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"spec": {**made["spec"], **spec}}


NEVER_MADE = {
    "a Service whose name has a dot": (job(name="my.job.v1", plugins={"svc": []}), {"metadata.name"}, 'Service "my.job.v1"'),
    "a volume of a plugin whose name has a dot": (job(name="my.job.v3", plugins={"ssh": []}), {"metadata.name"}, "my.job.v3-ssh"),
    "a volume of the Job whose name has a dot": (job(name="my.job", volumes=CLAIM), {"metadata.name"}, "must not contain dots"),
    "a volume whose name is too long": (job(task("t"), name="j" * 55, volumes=CLAIM), {"metadata.name"}, "no more than 63"),
    "a mount where a plugin mounts": (
        job(task(template=mounting(*MOUNTS)), plugins={"svc": []}),
        {"spec.tasks[0].template.spec.containers[0].volumeMounts"},
        "/etc/volcano",
    ),
    "a mount where a volume of the Job is mounted": (
        job(task("a"), task("b", template=mounting({"name": "v", "mountPath": "/data"})), volumes=CLAIM),
        {"spec.tasks[1].template.spec.containers[0].volumeMounts"},
        "/data",
    ),
    "a volume with the name of a plugin's": (
        job(task(template=mounting(volume="job-1-svc")), plugins={"svc": []}),
        {"spec.tasks[0].template.spec.volumes"},
        "job-1-svc",
    ),
    "annotations of a pod near the limit": (
        job(task(template={**template(), "metadata": {"annotations": {"a": BIG}}})),
        {"spec.tasks[0].template.annotations"},
        "Too long",
    ),
    "annotations of the Job near the limit, beside those of its PodGroup": (
        {**job(runningEstimate="1h"), "metadata": {"name": "j", "namespace": "n", "annotations": {"a": f"{BIG}{'x' * 40}"}}},
        {"metadata.annotations"},
        "Too long",
    ),
    "a priority beside the class of the Job": (
        job(task(template=pod_of(template(), priority=5)), priorityClassName="high"),
        {"spec.tasks[0].template.spec.priority"},
        'PriorityClass "high"',
    ),
    "a priority beside a class": (
        job(task(template=pod_of(template(), priority=0, priorityClassName="high"))),
        {"spec.tasks[0].template.spec.priority"},
        "remove this field",
    ),
}


@pytest.mark.parametrize(("given", "paths", "words"), NEVER_MADE.values(), ids=NEVER_MADE.keys())
def test_job_whose_objects_the_api_server_would_refuse_is_denied_at_the_field(
    given: dict[str, Any], paths: set[str], words: str
) -> None:
    verdict = jobs.validate_create(given, QUEUES, JobOptions(made=made_for))
    assert {cause.path for cause in verdict.causes} == paths, verdict.message
    assert words in verdict.message


def test_template_whose_jobs_could_never_be_made_is_refused_where_it_is_written() -> None:
    options = JobOptions(made=made_for)
    mounts = job(task(template=mounting(*MOUNTS)), plugins={"svc": []})["spec"]
    mounted = "tasks[0].template.spec.containers[0].volumeMounts"
    (cause,) = jobtemplates.validate({"metadata": {"name": "my.template"}, "spec": mounts}, QUEUES, options).causes
    assert cause.path == f"spec.{mounted}"
    hyper = {"metadata": {"name": "h"}, "spec": {"replicatedJobs": [{"name": "a", "replicas": 1, "templateSpec": mounts}]}}
    assert [cause.path for cause in hyperjobs.validate(hyper, options).causes] == [
        f"spec.replicatedJobs[0].templateSpec.{mounted}"
    ]
    dotted = {"schedule": "@daily", "jobTemplate": {"spec": job(plugins={"svc": []})["spec"]}}
    (cause,) = cronjobs.validate({"metadata": {"name": "my.cron"}, "spec": dotted}, (), options).causes
    assert cause.path == "metadata.name"
    assert 'Service "my.cron-' in str(cause)


def test_job_with_every_plugin_and_a_volume_can_be_made_at_a_cost_without_its_replicas() -> None:
    plugins = {"env": [], "svc": [], "ssh": [], "mpi": [], "hcclrank": [], "tensorflow": [], "pytorch": [], "ray": []}
    given = job(task("master", replicas=40_000), task("worker"), plugins=plugins, volumes=CLAIM, name="2024")
    assert jobs.validate_create(given, QUEUES, JobOptions(made=made_for)).allowed
    made = list(made_for(given))
    assert [item.task for item in made if item.task is not None] == [0, 1]
    assert sum(len(str(item.manifest)) for item in made) < 50_000


def test_max_retry_of_zero_is_replaced_with_a_warning() -> None:
    assert default_warnings(job(maxRetry=0))[0].startswith("spec.maxRetry: 0 is taken as the default 3")
    assert default_warnings(job()) == default_warnings(job(maxRetry=1)) == ()


def test_pod_level_resources_are_validated_only_if_the_cluster_supports_them() -> None:
    spec = {
        "resources": {"requests": {"cpu": "2"}},
        "containers": [{"name": name, "image": "x", "resources": {"requests": {"cpu": "2"}}} for name in ("a", "b")],
    }
    given = job(task(template={"spec": spec}))
    assert jobs.validate_create(given, QUEUES, JobOptions(pod_level_resources=False)).allowed
    assert (
        'spec.task[0].template.spec.resources.requests[cpu]: Invalid value: "2": '
        "must be greater than or equal to aggregate container requests of 4." in jobs.validate_create(given, QUEUES).message
    )
    spec["resources"] = {"requests": {"cpu": "6"}, "limits": {"cpu": "4"}}
    said = 'template.spec.resources.requests: Invalid value: "6": must be less than or equal to cpu limit of 4'
    assert said in jobs.validate_create(given, QUEUES).message


def test_custom_plugin_is_allowed_only_if_admission_is_configured_with_it() -> None:
    given = job(plugins={"stamp": ["--any"]})
    assert jobs.validate_create(given, QUEUES, JobOptions(plugins=("svc", "stamp"))).allowed
    (cause,) = jobs.validate_create(given, QUEUES).causes
    assert str(cause).endswith("; there are env, hcclrank, mpi, pytorch, ray, slurm, ssh, svc, tensorflow")


def test_refusal_sentence_ends_with_the_field_paths_of_its_first_five_causes() -> None:
    twice = jobs.validate_create(job(task("a"), task("a")), QUEUES)
    assert twice.sentence == f"{twice.message} (spec.tasks[1].name)"
    many = jobs.validate_create(job(*[task("a")] * 9), QUEUES)
    assert many.sentence.endswith("spec.tasks[5].name and 3 more)")
    closed = jobs.validate_create(job(queue="closed"), QUEUES)
    assert closed.sentence == closed.message


def test_job_with_a_missing_priority_class_gets_a_warning() -> None:
    given = job(task("a"), task("b"), priorityClassName="urgent")
    given["spec"]["tasks"][1]["template"]["spec"]["priorityClassName"] = "gone"
    assert list(class_warnings(given["spec"], "spec", ("urgent",))) == [
        'spec.tasks[1].template.spec.priorityClassName: there is no PriorityClass "gone"; no pod of it is made until there is one'
    ]
    assert list(class_warnings(given["spec"], "spec", None)) == []


SCHEDULERS = Schedulers(frozenset({"volcano"}), {}, frozenset({"volcano"}))
ABSENT = 'no scheduler named "{}" is at work; schedulers at work: volcano; the job waits until there is one'


@pytest.mark.parametrize(
    ("spec", "lines"),
    [
        ({"schedulerName": "volcano"}, []),
        ({"schedulerName": "volcan"}, ["spec.schedulerName: " + ABSENT.format("volcan")]),
        ({"schedulerName": "ours"}, []),
        ({}, []),
        (
            {"tasks": [{"template": {"spec": {"schedulerName": "other"}}}]},
            ["spec.tasks[0].template.spec.schedulerName: " + ABSENT.format("other")],
        ),
    ],
)
def test_job_with_a_scheduler_that_is_not_running_gets_a_warning(spec, lines):
    assert list(scheduler_warnings(spec, "spec", SCHEDULERS, ("ours",))) == lines
    assert list(scheduler_warnings(spec, "spec", None)) == []
