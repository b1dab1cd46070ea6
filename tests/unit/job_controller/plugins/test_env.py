from pyroclast_job_controller.plugins.env import EnvPlugin
from tests.unit.lifecycle.builders import job, task

from .helpers import pod_of, with_init


def test_all_containers_are_told_their_index_after_what_they_have():
    given = with_init()
    given["spec"]["containers"][0]["env"] = [{"name": "MINE", "value": "x"}]
    spec = pod_of(EnvPlugin([]), job(task(replicas=2, template=given)), index=1)["spec"]
    ours = [{"name": "VK_TASK_INDEX", "value": "1"}, {"name": "VC_TASK_INDEX", "value": "1"}]
    assert spec["containers"][0]["env"] == [{"name": "MINE", "value": "x"}, *ours]
    assert spec["initContainers"][0]["env"] == ours


def test_the_name_of_the_task_is_told_when_asked_for():
    spec = pod_of(EnvPlugin(["--task-name"]), job(task("w")))["spec"]
    assert spec["containers"][0]["env"][-1] == {"name": "VC_TASK_NAME", "value": "w"}
