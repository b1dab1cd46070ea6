"""A list of hosts that no environment variable can hold is told of when the Job comes."""

from __future__ import annotations

import pytest

from pyroclast.rules.jobs.plugins import host_list_warnings


@pytest.mark.parametrize(
    ("plugins", "replicas", "is_told"),
    [
        ({"svc": []}, 10_000, True),
        ({"mpi": []}, 10_000, True),
        ({"svc": []}, 100, False),
        ({"env": []}, 10_000, False),
        (None, 10_000, False),
    ],
)
def test_host_list_too_long_for_an_environment_variable_causes_a_warning(plugins, replicas, is_told):
    spec = {"plugins": plugins, "tasks": [{"name": "my-worker", "replicas": replicas}]}
    told = list(host_list_warnings(spec, "spec", "train"))
    assert bool(told) is is_told
    for line in told:
        assert line.startswith('spec.plugins: the hosts of task "my-worker" are too long')
        assert line.endswith("VC_MY_WORKER_HOSTS and MPI_HOST are not set: read the file /etc/volcano/my_worker.host")


def test_host_lists_too_long_in_total_cause_warnings_for_some_of_the_tasks():
    tasks = [{"name": f"t{number}", "replicas": 5000} for number in range(12)]
    assert 0 < len(list(host_list_warnings({"plugins": {"svc": []}, "tasks": tasks}, "spec", "j"))) < 12
