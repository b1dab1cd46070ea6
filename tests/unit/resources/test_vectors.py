"""Resource vectors: which resources count, in which unit, and how they compare."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyroclast.resources.quantity import QuantityError
from pyroclast.resources.vectors import EMPTY, Missing, Vector, counts, from_list, total


def test_a_resource_list_is_converted_to_base_units_without_uncounted_resources():
    found = from_list(
        {
            "cpu": "1500m",
            "memory": "1Gi",
            "pods": 110,
            "ephemeral-storage": "1k",
            "nvidia.com/gpu": "2",
            "hugepages-2Mi": "4Mi",
            "storage": "1Gi",
            "count/jobs.batch": "3",
            "requests.nvidia.com/gpu": "1",
        }
    )
    assert found.amounts == {
        "cpu": 1500,
        "memory": 2**30,
        "pods": 110,
        "ephemeral-storage": 1_000_000,
        "nvidia.com/gpu": 2000,
        "hugepages-2Mi": 4000 * 2**20,
    }
    assert not counts("storage")


def test_a_vector_is_written_by_name_with_two_decimals():
    resources = {"cpu": "1500m", "memory": "1Gi", "pods": "3", "nvidia.com/gpu": "2"}
    assert str(from_list(resources)) == "cpu 1500.00, memory 1073741824.00, nvidia.com/gpu 2000.00, pods 3.00"


def test_an_invalid_quantity_is_reported_with_its_resource_name():
    with pytest.raises(QuantityError, match="memory: 'much'"):
        from_list({"memory": "much"})


@pytest.mark.parametrize(
    ("left", "right", "missing", "want"),
    [
        pytest.param({"cpu": "1"}, {"cpu": "1"}, Missing.ZERO, (), id="equal"),
        pytest.param({"cpu": "2", "memory": "2Gi"}, {"cpu": "1", "memory": "1Gi"}, Missing.ZERO, ("cpu", "memory"), id="both"),
        pytest.param({"a.b/gpu": "1"}, {"cpu": "1"}, Missing.ZERO, ("a.b/gpu",), id="a-missing-dimension-is-nothing"),
        pytest.param({"a.b/gpu": "1"}, {"cpu": "1"}, Missing.INFINITY, (), id="a-missing-dimension-is-no-limit"),
        pytest.param({"cpu": "1"}, {"memory": "1Gi"}, Missing.INFINITY, ("cpu",), id="but-cpu-always-counts"),
        pytest.param({"a.b/x": "1", "a.b/a": "1"}, {}, Missing.ZERO, ("a.b/a", "a.b/x"), id="in-alphabetical-order"),
    ],
)
def test_exceeding_returns_the_resources_above_the_limit_in_alphabetical_order(left, right, missing, want):
    assert from_list(left).exceeding(from_list(right), missing=missing) == want


def test_fits_ignores_differences_below_a_tenth_of_the_unit():
    assert Vector({"cpu": 1000.05}).fits(Vector({"cpu": 1000.0}))
    assert not Vector({"cpu": 1000.2}).fits(Vector({"cpu": 1000.0}))


def test_nothing_fits_into_a_vector_with_a_negative_amount():
    assert not from_list({"cpu": "1"}).fits(Vector({"cpu": 2000.0, "memory": -1.0}))


def test_a_request_without_a_limited_resource_does_not_fit_if_missing_means_infinity():
    assert not from_list({"cpu": "1"}).fits(from_list({"cpu": "1", "a.b/gpu": "1"}), missing=Missing.INFINITY)
    assert from_list({"cpu": "1"}).fits(from_list({"cpu": "1", "a.b/gpu": "1"}))


def test_vectors_compute_minimum_maximum_share_and_emptiness():
    left, right = from_list({"cpu": "2", "a.b/gpu": "1"}), from_list({"cpu": "1", "memory": "1Gi"})
    assert left.minimum(right, missing=Missing.ZERO).amounts == {"cpu": 1000, "a.b/gpu": 0}
    assert left.minimum(right, missing=Missing.INFINITY).amounts == {"cpu": 1000, "a.b/gpu": 1000}
    assert left.maximum(right).amounts == {"cpu": 2000, "a.b/gpu": 1000, "memory": 2**30}
    assert from_list({"cpu": "1"}).share_of(from_list({"cpu": "4", "memory": "1Gi"})) == 0.25
    assert from_list({"cpu": "1"}).share_of(EMPTY) == 1
    assert from_list({"pods": "1"}).is_empty
    assert not from_list({"cpu": "1m"}).is_empty
    assert (from_list({"cpu": "1"}) * 3)["cpu"] == 3000


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "pods", "a.b/gpu"]), st.integers(0, 10**12).map(float), max_size=4)


@given(st.lists(AMOUNTS, max_size=4))
@settings(max_examples=100)
def test_every_part_fits_its_sum_and_subtraction_undoes_addition(parts):
    vectors = [Vector(part) for part in parts]
    whole = total(vectors)
    for vector in vectors:
        assert vector.fits(whole)
        left = (whole + vector) - vector
        assert all(left[name] == whole[name] for name in left.names)
