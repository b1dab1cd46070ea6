"""Options of tasks: what they become in a Job, and what is said of those that make no sense."""

import json
import resource
import subprocess
import sys
from dataclasses import replace
from statistics import median

import numpy as np
import pytest

import pyroclast.client as pc
from pyroclast_client import errors
from pyroclast_client.checking import checked_job
from pyroclast_client.compilation import Surroundings, compiled
from pyroclast_client.options import options_of
from pyroclast_client.payload import Arguments
from pyroclast_client.submission import unknown_fields, without

AROUND = Surroundings("default", queue="q", image="py")


def train(rate: float = 0.0) -> float:
    return rate


def job_of(**options):
    call = pc.task(**options)(train).call(1.0)
    return compiled(call.function, [call.arguments], call.options, AROUND, name="train-1").job


def test_task_options_become_job_fields():
    spec = job_of(
        image="python:3.11",
        cpu=4,
        memory="16Gi",
        gpus=8,
        gang=(2, 4),
        queue="research",
        retries=2,
        timeout="2h",
        topology="rack",
        priority="high",
        env={"A": 1},
        secrets={"TOKEN": "mine/key"},
        mounts={"/data": "claim", "/tmp/x": {"emptyDir": {}}},
        pod={"metadata": {"labels": {"team": "a"}}, "spec": {"nodeSelector": {"gpu": "h100"}}},
        ttl=60,
    )["spec"]
    (task,) = spec["tasks"]
    assert (spec["minAvailable"], task["minAvailable"], task["replicas"], spec["queue"]) == (2, 2, 4, "research")
    assert (spec["maxRetry"], spec["ttlSecondsAfterFinished"], spec["priorityClassName"]) == (2, 60, "high")
    ends = [{"exitCode": code, "action": "TerminateJob"} for code in (65, 124)]
    assert spec["policies"] == [*ends, {"events": ["PodFailed", "PodEvicted"], "action": "RestartJob"}]
    assert spec["networkTopology"] == {"mode": "hard", "highestTierName": "rack"}
    pod = task["template"]["spec"]
    assert (pod["activeDeadlineSeconds"], pod["nodeSelector"], pod["automountServiceAccountToken"]) == (
        7200 + 30,
        {"gpu": "h100"},
        False,
    )
    assert task["template"]["metadata"] == {"labels": {"team": "a"}}
    (container,) = pod["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "8"},
        "limits": {"nvidia.com/gpu": "8", "memory": "16Gi"},
    }
    env = {each["name"]: each.get("value") or each["valueFrom"] for each in container["env"]}
    assert (env["A"], env["TOKEN"]) == ("1", {"secretKeyRef": {"name": "mine", "key": "key"}})
    assert {"name": "mount-0", "persistentVolumeClaim": {"claimName": "claim"}} in pod["volumes"]


@pytest.mark.parametrize(
    ("options", "sweep_size", "actions", "limit"),
    [
        ({}, 0, {}, None),
        ({"idempotent": True}, 0, {75: "RestartJob", "PodEvicted": "RestartJob"}, None),
        ({}, 10, {75: "RestartPod", "PodEvicted": "RestartPod"}, 13),
        ({"retries": 2}, 10, {75: "RestartPod", "PodEvicted": "RestartPod", **dict.fromkeys((134, 137, 139), "RestartPod")}, 33),
    ],
)
def test_policies_try_again_what_may_succeed(options, sweep_size, actions, limit):
    kwargs = {"name": "n", "is_sweep": bool(sweep_size)}
    calls = [Arguments((number,)) for number in range(sweep_size or 1)]
    spec = compiled(train, calls, options_of(options), Surroundings("n", image="i"), **kwargs).job["spec"]
    assert {each.get("exitCode") or each["event"]: each["action"] for each in spec.get("policies", ())} == actions
    assert spec.get("maxRetry") == limit


def test_a_patch_is_merged_into_the_spec_of_the_job():
    spec = job_of(patch={"minSuccess": 1, "tasks": [{"name": "main", "maxRetry": 5}]})["spec"]
    assert (spec["minSuccess"], spec["tasks"][0]["maxRetry"], spec["tasks"][0]["replicas"]) == (1, 5, 1)
    with pytest.raises(errors.Usage, match="task: patch: "):
        job_of(patch={"tasks": {"maxRetry": 5}})


@pytest.mark.parametrize(("pod", "grace"), [({}, 30), ({"spec": {"terminationGracePeriodSeconds": 120}}, 120)])
def test_checkpoint_pod_takes_the_grace_period_of_its_template_or_30_seconds(pod, grace):
    spec = job_of(checkpoint=print, store="file:///shared", pod=pod)["spec"]["tasks"][0]["template"]["spec"]
    assert spec["terminationGracePeriodSeconds"] == grace
    assert {"name": "PYROCLAST_GRACE", "value": str(grace)} in spec["containers"][0]["env"]


@pytest.mark.parametrize(("topology", "limit"), [("rack", {"highestTierName": "rack"}), (2, {"highestTierAllowed": 2})])
def test_topology_option_accepts_a_tier_name_or_number(topology, limit):
    job = job_of(topology=topology, gang=2)
    assert job["spec"]["networkTopology"] == {"mode": "hard", **limit}
    assert checked_job(job) == ()


def test_unset_task_options_take_client_defaults_and_add_no_fields():
    spec = job_of()["spec"]
    assert (spec["queue"], spec["minAvailable"]) == ("q", 1)
    assert "plugins" not in spec
    assert "resources" not in spec["tasks"][0]["template"]["spec"]["containers"][0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gpu": 1}, "task: gpu: no such option; there are .*gpus"),
        ({"gang": 0}, "gang: 0 is no size"),
        ({"gang": (3, 2)}, "gang: .* is no size"),
        ({"retries": -1}, "retries: -1"),
        ({"serializer": "yaml"}, "serializer: 'yaml' is none of pickle, json"),
        ({"secrets": {"A": "b"}}, 'secrets: A must be "SECRET/KEY"'),
        ({"env": ["A"]}, "env: list is not"),
        ({"memory": 4}, "memory: 4 is 4 bytes; give text with a unit, such as `4Gi`"),
        ({"memory": "4 GB"}, "memory: '4 GB' is no amount; give text with a unit"),
        ({"memory": "-1Gi"}, "memory: '-1Gi' is no amount above 0"),
        ({"cpu": "two"}, "cpu: 'two' is no amount; give a number of cores such as 0.5"),
        ({"cpu": True}, "cpu: True is no amount"),
        ({"timeout": "soon"}, "timeout: 'soon' is no duration"),
        ({"pod": {"containers": []}}, "pod: has containers; give `metadata` and `spec`"),
        ({"checkpoint": print}, "checkpoints need a store"),
    ],
)
def test_invalid_task_option_raises_usage_with_the_reason(options, words):
    with pytest.raises(errors.Usage, match=words):
        job_of(**options)


def test_sweep_calls_are_the_product_of_all_list_arguments():
    calls = pc.task(train).calls([1, 2], other=(3, 4), same="s").arguments
    assert [(each.positional, dict(each.keywords)) for each in calls] == [
        ((number,), {"other": other, "same": "s"}) for number in (1, 2) for other in (3, 4)
    ]
    with pytest.raises(errors.Usage, match="no argument is a list"):
        pc.task(train).calls(1)


def test_task_decorator_keeps_the_function_callable_with_its_name_and_doc():
    task = pc.task(train)
    assert (task(2.0), task.__name__, task.__doc__) == (2.0, "train", train.__doc__)
    assert task.using(gang=2).options.gang.size == 2
    with pytest.raises(errors.Usage, match="is no function"):
        pc.task(3)


REFUSAL = (
    'Job in version "v1alpha1" cannot be handled as a Job: strict decoding error: unknown field "spec.retry", '
    'unknown field "spec.tasks[1].extra"'
)


def test_unknown_fields_are_read_from_a_strict_decoding_error():
    assert unknown_fields(REFUSAL) == ["spec.retry", "spec.tasks[1].extra"]
    assert unknown_fields('strict decoding error: duplicate field "spec.retry"') == []


def test_unknown_fields_are_removed_from_a_copy_of_the_object():
    given = {"spec": {"retry": {}, "queue": "q", "tasks": [{"extra": 1}, {"extra": 2, "name": "b"}]}}
    assert without(given, unknown_fields(REFUSAL)) == {"spec": {"queue": "q", "tasks": [{"extra": 1}, {"name": "b"}]}}
    assert given["spec"]["retry"] == {}


@pytest.mark.parametrize("message", ["", "denied by a policy", 'unknown queue "a"'])
def test_other_refusals_yield_no_unknown_fields(message):
    assert unknown_fields(message) == []


def test_keeper_reports_in_one_line_why_the_local_control_plane_cannot_start(tmp_path):
    command = [sys.executable, "-m", "pyroclast_client.keeper", str(tmp_path / "plane"), "--node-mode", "nonsense"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as keeper:
        said = keeper.stdout.read()  # our end of its input stays open until here
    assert said.startswith("pyroclast: argument --node-mode: invalid choice: 'nonsense'")
    assert said.count("\n") == 1


def pod_of(**options):
    return job_of(**options)["spec"]["tasks"][0]["template"]["spec"]


def test_a_type_of_gpus_selects_the_products_whose_name_has_it():
    around = replace(AROUND, products=("NVIDIA-A100-SXM4-80GB", "NVIDIA-H100"))
    for given, products in (("a100:2", ["NVIDIA-A100-SXM4-80GB"]), ("MI300:2", ["MI300"])):
        call = pc.task(gpus=given)(train).call()
        spec = compiled(train, [call.arguments], call.options, around, name="t").job["spec"]["tasks"][0]["template"]["spec"]
        assert spec["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "2"}
        (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        assert term["matchExpressions"] == [{"key": "nvidia.com/gpu.product", "operator": "In", "values": products}]
    assert pod_of(gpus="h100")["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert "affinity" not in pod_of(gpus="2")
    with pytest.raises(errors.Usage, match='"a100:2"'):
        pc.task(gpus="a100:many")


def test_a_job_goes_a_day_after_its_end_unless_told_otherwise():
    assert [job_of(**given)["spec"].get("ttlSecondsAfterFinished") for given in ({}, {"ttl": 60}, {"ttl": None})] == [
        86_400,
        60,
        None,
    ]


@pytest.mark.parametrize("option", [{"until": "tomorrow"}, {"parallel": 0}, {"memory": 4}, {"cpu": "4 cores"}])
def test_an_option_without_a_meaning_is_refused_with_what_has_one(option):
    with pytest.raises(errors.Usage, match=r"; |give ") as caught:
        pc.task(**option)
    assert "\\" not in str(caught.value)


@pytest.mark.parametrize(
    "values", [[1, 2], (1, 2), range(1, 3), (n for n in (1, 2)), np.array([1, 2]), np.array([[1, 5], [2, 5]])[:, 0]]
)
def test_sweeps_vary_over_anything_that_is_a_series(values):
    calls = pc.task(train).calls(rate=values, other="text")
    assert [each.keywords for each in calls.arguments] == [{"rate": 1, "other": "text"}, {"rate": 2, "other": "text"}]


def test_a_number_of_numpy_is_the_same_for_all_calls():
    assert len(pc.task(train).calls([1, 2], np.float64(3)).arguments) == 2
    with pytest.raises(errors.Usage, match="no argument is a list"):
        pc.task(train).calls(np.array(3))


HEAVY = {"aiohttp", "pydantic", "kubernetes_asyncio", "numpy", "yaml", "cloudpickle", "opentelemetry", "structlog", "asyncio"}
LOOK = """
import json, os, sys, threading
before = os.listdir("/proc/self/fd")
import pyroclast.client
print(json.dumps([sorted(sys.modules), threading.active_count(), before == os.listdir("/proc/self/fd")]))
"""
STARTS = 20


def test_importing_the_client_loads_no_heavy_modules_starts_no_thread_and_opens_no_file():
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, check=True)
    modules, threads, are_same_files = json.loads(done.stdout)
    assert not HEAVY & set(modules)
    assert threads == 1
    assert are_same_files


def test_importing_the_client_takes_less_than_200_ms_of_cpu_time():
    def work() -> float:
        """Seconds of a processor, which others that are at work beside do not make more."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    def seconds(code: str) -> float:
        before = work()
        subprocess.run([sys.executable, "-c", code], check=True)
        return work() - before

    assert median(seconds("import pyroclast.client") for _ in range(STARTS)) < 0.2


def test_client_module_exposes_exactly_its_public_names():
    for name in pc.__all__:
        assert getattr(pc, name) is not None
    assert set(dir(pc)) == set(pc.__all__)
    with pytest.raises(AttributeError, match="no attribute 'jop'; it has"):
        pc.jop  # noqa: B018 - that is what is tried
