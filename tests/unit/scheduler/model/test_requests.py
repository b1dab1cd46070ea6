"""What a pod asks for, and how amounts are read."""

import msgspec
import pytest

from pyroclast.api import records
from pyroclast_scheduler.model.dimensions import MOST, UNKNOWN, Dimensions, amounts_of
from pyroclast_scheduler.model.requests import non_zero, pod_request

CPU = "cpu"


def container(cpu):
    return {"resources": {"requests": {CPU: str(cpu)}}}


def sidecar(cpu):
    return {**container(cpu), "restartPolicy": "Always"}


def spec(**fields):
    return msgspec.convert(fields, records.PodSpec)


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({"containers": [container(1), container(2)]}, 3000, id="sum"),
        pytest.param({"containers": [container(1)], "initContainers": [container(5)]}, 5000, id="init-alone"),
        pytest.param(
            {"containers": [container(1)], "initContainers": [container(5), sidecar(1), sidecar(2), sidecar(3)]},
            7000,
            id="sidecars-stay",
        ),
        pytest.param(
            {
                "containers": [container(1)],
                "initContainers": [
                    sidecar(1),
                    sidecar(2),
                    container(5),
                    sidecar(3),
                ],
            },
            8000,
            id="init-beside-sidecars",
        ),
        pytest.param({"containers": [container(100)], "initContainers": [sidecar(10), container(200)]}, 210000, id="large"),
        pytest.param(
            {"containers": [container(1)], "resources": {"requests": {CPU: "250m"}}, "overhead": {CPU: "250m"}},
            500,
            id="pod-level",
        ),
    ],
)
def test_the_pod_request_counts_init_containers_sidecars_overhead_and_pod_level_resources(fields, want):
    assert pod_request(spec(**fields)) == {"cpu": want, "memory": 0, "pods": 1}


def test_a_container_without_requests_counts_with_default_amounts_in_scores():
    assert non_zero(spec(containers=[{}, container(2)])) == (2100, 2 * 200 * 2**20)


def test_quantities_are_converted_to_integers_and_quota_resources_are_dropped():
    found = amounts_of(
        {
            "cpu": "1500m",
            "memory": "1Gi",
            "pods": "110",
            "nvidia.com/gpu": 2,
            "ephemeral-storage": "1k",
            "hugepages-2Mi": "4Mi",
            "storage": "1Gi",
            "count/jobs.batch": "5",
            "requests.nvidia.com/gpu": "1",
        }
    )
    assert found == {
        "cpu": 1500,
        "memory": 2**30,
        "pods": 110,
        "nvidia.com/gpu": 2000,
        "ephemeral-storage": 10**6,
        "hugepages-2Mi": 4 * 2**20 * 1000,
    }


@pytest.mark.parametrize("text", ["-1", "lots", "1e30"])
def test_an_invalid_quantity_raises_an_error_with_the_resource_name(text):
    with pytest.raises(ValueError, match="cpu"):
        amounts_of({"cpu": text})


def test_a_new_resource_adds_a_dimension_but_not_to_a_frozen_copy():
    dimensions = Dimensions()
    before = dimensions.frozen()
    assert dimensions.add(["x/gpu"]) == [4]
    assert dimensions.vector({"cpu": 1, "x/gpu": 2}).tolist() == [1, 0, 0, 0, 2]
    assert len(before) == 4
    assert before.find("x/gpu") is None


def test_resources_without_a_row_are_summed_in_one_row_and_add_none():
    dimensions = Dimensions()
    amounts = {"cpu": 1, "x/gpu": 2, "x/nic": 3, "x/none": 0}
    assert dimensions.vector(amounts).tolist() == dimensions.asked(amounts).tolist() == [1, 0, 0, 5]
    assert dimensions.known(amounts).tolist() == dimensions.sums(amounts).tolist() == [1, 0, 0, 0]
    assert dimensions.named([0, UNKNOWN], amounts) == [("cpu", 0), ("x/gpu", UNKNOWN), ("x/nic", UNKNOWN)]
    assert dimensions.named([UNKNOWN], {"cpu": 1, "x/none": 0}) == [("x/none", UNKNOWN)]
    assert dimensions.vector({"x/a": 2**60, "x/b": 2**60}).tolist() == [0, 0, 0, 2**58], "it is cut off, not wrapped"


def test_dimension_rows_are_limited_and_rows_of_dropped_resources_are_reused():
    dimensions = Dimensions(f"x/{i}" for i in range(1000))
    assert len(dimensions) == MOST
    assert (dimensions.left, dimensions.add(["x/new"])) == (0, [])
    assert dimensions.drop({"x/0"}) == list(range(5, MOST))
    assert (dimensions.left, dimensions.add(["x/new", "x/0", "unknown", ""])) == (MOST - 5, [5])
    assert (dimensions.find("x/0"), dimensions.find("x/new"), dimensions.find("x/1")) == (4, 5, None)
