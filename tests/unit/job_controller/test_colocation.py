"""Which ColocationConfiguration a pod is told of."""

import pytest

from pyroclast.api.records import ColocationConfiguration, PodMeta
from pyroclast_job_controller import colocations
from tests.unit.lifecycle.builders import decode

NAME, CONFIG = "volcano.sh/colocation-config-name", "volcano.sh/colocation-config"


def configuration(name="c", selector=None, created="2025-01-01T00:00:00Z", **qos):
    spec = {"selector": selector, **({"memoryQos": qos} if qos else {})}
    return decode({"metadata": {"name": name, "creationTimestamp": created}, "spec": spec}, ColocationConfiguration)


def pod(**annotations):
    marks = {f"volcano.sh/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return decode({"metadata": {"name": "p", "uid": "u", "labels": {"a": "b"}, "annotations": marks}}, PodMeta)


FITS = {"matchLabels": {"a": "b"}}
SELECTORS = {
    "none": (None, False),
    "empty": ({}, True),
    "fits": (FITS, True),
    "does not": ({"matchLabels": {"a": "c"}}, False),
    "invalid": ({"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}, False),
    "without values": ({"matchExpressions": [{"key": "a", "operator": "In"}]}, False),
    "exists": ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, True),
}


@pytest.mark.parametrize(("selector", "want"), SELECTORS.values(), ids=SELECTORS.keys())
def test_colocation_configuration_selects_pods_only_by_a_valid_matching_selector(selector, want):
    assert colocations.selects(configuration(selector=selector), {"a": "b"}) is want


def test_newest_matching_colocation_configuration_wins():
    old, new = configuration("old", FITS), configuration("new", FITS, "2025-01-02T00:00:00Z")
    newer = configuration("other", None, "2025-01-03T00:00:00Z")
    assert colocations.configuration_for([old, new, newer], {"a": "b"}) == new
    assert colocations.configuration_for([newer], {"a": "b"}) is None


def test_pod_is_patched_only_when_its_configuration_annotations_differ():
    each = configuration("c", FITS, highRatio=80)
    patch = colocations.patch(pod(), each)
    assert patch["metadata"] == {"uid": "u", "annotations": {NAME: "c", CONFIG: '{"memoryQos":{"highRatio":80}}'}}
    assert colocations.patch(pod(colocation_config_name="c", colocation_config='{ "memoryQos": {"highRatio": 80} }'), each) == {}
    assert colocations.patch(pod(colocation_config_name="c", colocation_config="{"), each) == patch
    assert colocations.patch(pod(colocation_config_name="d", colocation_config=patch["metadata"]["annotations"][CONFIG]), each)


def test_configuration_annotations_are_emptied_when_no_configuration_matches():
    patch = colocations.patch(pod(colocation_config_name="c", colocation_config="x"), None)
    assert patch["metadata"]["annotations"] == {NAME: None, CONFIG: "{}"}
    assert colocations.patch(pod(colocation_config="{}"), None) == {}
    assert colocations.patch(pod(), None) == {}
