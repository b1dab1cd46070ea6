from pyroclast.lifecycle.gang import members
from pyroclast.lifecycle.plugins.slurm import SlurmPlugin
from tests.unit.lifecycle.builders import job, task

from .helpers import env, pod_of, with_init


def variables(owner, index=0, task_number=0):
    return env(pod_of(SlurmPlugin([]), owner, task_number, index))


def test_pods_of_several_tasks_are_nodes_with_ascending_ranks():
    owner = job(task("a", 1), task("b", 2))
    found = variables(owner, index=1, task_number=1)
    assert {name: found[f"SLURM_{name}"] for name in ("NTASKS", "PROCID", "NODEID", "JOB_NUM_NODES", "LOCALID")} == {
        "NTASKS": "3", "PROCID": "2", "NODEID": "2", "JOB_NUM_NODES": "3", "LOCALID": "0",
    }  # fmt: skip
    assert found["SLURM_JOB_ID"] == variables(owner)["SLURM_JOB_ID"]
    assert found["SLURM_JOB_NAME"] == "j"


def test_pod_of_an_array_has_its_index_and_an_id_of_its_own():
    array = task("a", 0, array={"indexes": "3-9:3,20"})
    owner = members.named(job(array, status={"arrays": {"a": {"failures": {"6": 2}}}}))
    found = variables(owner, index=6)
    assert {name: found[f"SLURM_ARRAY_{name}"] for name in ("TASK_ID", "TASK_COUNT", "TASK_MIN", "TASK_MAX")} == {
        "TASK_ID": "6", "TASK_COUNT": "4", "TASK_MIN": "3", "TASK_MAX": "20",
    }  # fmt: skip
    other = variables(owner, index=9)
    assert found["SLURM_ARRAY_JOB_ID"] == other["SLURM_ARRAY_JOB_ID"]
    assert found["SLURM_JOB_ID"] != other["SLURM_JOB_ID"]
    assert (found["SLURM_NTASKS"], found["SLURM_PROCID"], found["SLURM_RESTART_COUNT"]) == ("1", "0", "2")
    assert "SLURM_RESTART_COUNT" not in other


def test_cpus_are_those_of_the_container_and_own_variables_stay():
    given = with_init()
    given["spec"]["containers"][0] |= {
        "workingDir": "/work",
        "resources": {"requests": {"cpu": "2500m"}},
        "env": [{"name": "SLURM_NTASKS", "value": "mine"}],
    }
    found = variables(job(task("a", 1, template=given)))
    assert (found["SLURM_CPUS_PER_TASK"], found["SLURM_SUBMIT_DIR"], found["SLURM_NTASKS"]) == ("3", "/work", "mine")
