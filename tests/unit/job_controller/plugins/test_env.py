from pyroclast.lifecycle.plugins.env import EnvPlugin
from tests.unit.lifecycle.builders import job, task

from .helpers import pod_of, with_init


def test_task_index_variables_are_appended_to_the_env_of_all_containers():
    given = with_init()
    given["spec"]["containers"][0]["env"] = [{"name": "MINE", "value": "x"}]
    spec = pod_of(EnvPlugin([]), job(task(replicas=2, template=given)), index=1)["spec"]
    ours = [{"name": "VK_TASK_INDEX", "value": "1"}, {"name": "VC_TASK_INDEX", "value": "1"}]
    assert spec["containers"][0]["env"] == [{"name": "MINE", "value": "x"}, *ours]
    assert spec["initContainers"][0]["env"] == ours


def test_task_name_variable_is_set_with_the_task_name_flag():
    spec = pod_of(EnvPlugin(["--task-name"]), job(task("w")))["spec"]
    assert spec["containers"][0]["env"][-1] == {"name": "VC_TASK_NAME", "value": "w"}
