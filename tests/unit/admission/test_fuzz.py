"""Whatever comes, an answer or a clear refusal goes back, and soon: no exception, nothing that takes long."""

from __future__ import annotations

import asyncio
import importlib.util
import random
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.bench.admission import job as full_job
from tests.counts import examples
from tests.unit.admission.clients import review
from tests.unit.admission.fuzzing import PATHS, answered, engine
from tests.unit.rules.builders import template

ODD: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1.5,
    2**70,
    "",
    "x",
    "é\u0000",
    "1Gi",
    "-5",
    "a/b/c",
    [],
    {},
    [None],
    [{}],
    {"": {}},
    [[]],
    "9" * 400,
]

NAMED = {"scheduling.volcano.sh/queue-name": "late"}
OBJECTS: dict[str, dict[str, Any]] = {
    "jobs": full_job(2) | {"status": {}},
    "cronjobs": {
        "metadata": {"name": "c"},
        "spec": {"schedule": "* * * * *", "timeZone": "UTC", "jobTemplate": {"spec": full_job(1)["spec"]}},
    },
    "podgroups": {"spec": {"queue": "default", "networkTopology": {"highestTierName": "x"}, "subGroupPolicy": [{"name": "a"}]}},
    "queues": {
        "metadata": {"name": "q", "annotations": {"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1/2"}},
        "spec": {
            "parent": "parent",
            "capability": {"cpu": "1"},
            "deserved": {"cpu": "1"},
            "guarantee": {"resource": {"cpu": "1"}},
        },
    },
    "pods": {
        "metadata": {"annotations": {"volcano.sh/jdb-min-available": "50%"}},
        "spec": {"schedulerName": "volcano", **template()["spec"]},
    },
    "hyperjobs": {
        "metadata": {"name": "h"},
        "spec": {"minAvailable": 1, "replicatedJobs": [{"name": "a", "replicas": 2, "templateSpec": full_job(1)["spec"]}]},
    },
    "hypernodes": {
        "spec": {"tier": 1, "members": [{"type": "Node", "selector": {"regexMatch": {"pattern": "^a(b|c)+[0-9]{1,3}$"}}}]}
    },
    "jobflows": {
        "metadata": {"name": "f"},
        "spec": {
            "flows": [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}, "for": {"count": 2}, "switch": {"on": "a"}}]
        },
        "status": {"state": {"phase": "Running"}, "runningJobs": ["f-a"]},
    },
    "jobtemplates": {"metadata": {"name": "t"}, "spec": full_job(1)["spec"]},
    "commands": {"metadata": {"name": "c"}, "action": "AbortJob", "target": {"kind": "Job", "name": "j", "uid": "1"}},
    "batchjobs": {"metadata": {"annotations": NAMED}, "spec": {"template": {"metadata": {"labels": NAMED}, **template()}}},
    "workloads": {"metadata": {"annotations": NAMED}, "spec": {"template": {"metadata": {"labels": NAMED}}, "jobTemplate": {}}},
    "nativegroups": {"metadata": {"labels": NAMED}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}},
}
OBJECTS |= {f"owned{plural}": OBJECTS[plural] for plural in ("jobs", "pods")}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside `value`."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inside for place in places(item, (*path, key)))]


def bent(value: dict[str, Any], choose: random.Random) -> dict[str, Any]:
    """A copy in which a few values are something else."""
    result = deepcopy(value)
    for _ in range(choose.randint(1, 4)):
        path = choose.choice(places(result)[1:] or [("spec",)])
        target: Any = result
        for key in path[:-1]:
            target = target[key]
        try:
            target[path[-1]] = deepcopy(choose.choice(ODD))
        except (TypeError, IndexError, KeyError):
            continue
    return result


async def bend(count: int, seed: int) -> None:
    choose, fuzzed = random.Random(seed), engine()
    for _ in range(count):
        path = choose.choice(PATHS)
        given = OBJECTS[path.split("/")[1]]
        operation = choose.choice(["CREATE", "UPDATE", "DELETE"])
        body = review(
            path, operation, object=bent(given, choose), oldObject=bent(given, choose) if choose.random() < 0.7 else given
        )
        if choose.random() < 0.1:
            body = bent(body, choose)
        try:
            raw = orjson.dumps(body)
        except orjson.JSONEncodeError:  # an integer beyond 64 bits
            raw = __import__("json").dumps(body).encode()
        await answered(fuzzed, path, raw)
    fuzzed.close()


async def test_reviews_of_corrupted_objects_get_a_valid_response() -> None:
    await bend(3000, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(2, 12))
async def test_reviews_of_corrupted_objects_get_a_valid_response_in_long_runs(seed: int) -> None:
    await bend(10_000, seed)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=examples(1000), suppress_health_check=list(HealthCheck))
@given(st.sampled_from(PATHS), st.sampled_from(["CREATE", "UPDATE", "DELETE"]), JSON, JSON)
def test_reviews_of_any_json_get_a_valid_response(path: str, operation: str, new: Any, old: Any) -> None:
    asyncio.run(_ask(path, orjson.dumps(review(path, operation, object=new, oldObject=old))))


async def _ask(path: str, raw: bytes) -> None:
    fuzzed = engine()
    await answered(fuzzed, path, raw)
    fuzzed.close()


def atheris(runs: int) -> None:
    command = [sys.executable, "-m", "tests.unit.admission.fuzzing", f"-runs={runs}", "-seed=1", "-max_len=4096", "-timeout=5"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3])
    assert done.returncode == 0, done.stderr[-4000:]


has_atheris = pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not there for this Python")


@has_atheris
def test_raw_bytes_get_a_valid_response() -> None:
    atheris(5000)


@has_atheris
@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_raw_bytes_get_a_valid_response_in_long_runs() -> None:
    atheris(100_000)


@pytest.mark.parametrize("size", [100, 1000])
async def test_reviews_with_long_lists_get_a_valid_response_in_time(size: int) -> None:
    fuzzed = engine()
    names = [f"t{n}" for n in range(size)]
    tasks = [{"name": name, "replicas": 1, "dependsOn": {"name": names}, "template": {}} for name in names[:20]]
    flows = [{"name": name, "dependsOn": {"targets": names[:3]}} for name in names]
    queue = {"metadata": {"name": "q"}, "spec": {"capability": {f"x.org/{name}": "1" for name in names}}}
    for path, asked in (
        ("/jobs/validate", {"metadata": {"name": "j"}, "spec": {"tasks": tasks}}),
        ("/jobflows/validate", {"metadata": {"name": "f"}, "spec": {"flows": flows}}),
        ("/queues/validate", queue),
        ("/hypernodes/validate", {"spec": {"members": [{"selector": {"regexMatch": {"pattern": "(" * size}}}]}}),
    ):
        await answered(fuzzed, path, orjson.dumps(review(path, object=asked)))
    fuzzed.close()
