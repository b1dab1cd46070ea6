"""What the original answered to the recorded admission cases, and what we answer.

The recordings lie beside the project, in a folder `shared/recorded`; without them these tests are left out. The folder's own
program runs the cases and compares; what its README forgives is forgiven here too: a refusal that is 422 Invalid.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.e2e.cluster import Cluster

RECORDED = Path(__file__).parents[3] / "shared" / "recorded"
CASES = "adm-*"
RIGHT = {
    "adm-job-template-no-containers": "spec.containers: Required value",
    "adm-pod-jdb-odd-percent": "it must be a valid percentage which between 1% ~ 99%",
    "adm-queue-hierarchy-rootless": "root/rootless/a",
    "adm-queue-spec-absent": '"weight": 1',
}
"""Cases in which the original is wrong, and what a right answer has in it."""

pytestmark = pytest.mark.skipif(not RECORDED.is_dir(), reason="the recordings of the original are not beside the project")


@pytest.fixture(scope="module")
def answers(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our answers, one file per case."""
    folder = tmp_path_factory.mktemp("recorded")
    command = [sys.executable, str(RECORDED / "record.py"), "run", "--kubeconfig", str(cluster.kubeconfig)]
    options = ["--out", str(folder), "--only", CASES, "--par", "4"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def recorder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("record", RECORDED / "record.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", sorted(path.stem for path in (RECORDED / "original").glob(f"{CASES}.json")))
def test_as_the_original(name: str, answers: Path, recorder: ModuleType) -> None:
    theirs = json.loads((RECORDED / "original" / f"{name}.json").read_text())
    ours = json.loads((answers / f"{name}.json").read_text())
    if name in RIGHT:
        assert RIGHT[name] in json.dumps(ours)
        return
    assert recorder.differ(_without_marks(theirs), _forgiven(ours, theirs)) is None


def _without_marks(case: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in case.items() if key != "bug"}


def _forgiven(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """Our answers without what may be more in them: the reason of a refusal about fields, and a pod's token."""
    for mine, other in zip(ours["steps"], theirs["steps"], strict=True):
        if mine.get("code") == 422 and other.get("code") == 400 and "reason" not in other:
            mine.pop("reason", None)
        if " pod " in f" {mine.get('create', '')} ":
            _drop_token(mine.get("spec", {}))
    return _without_marks(ours)


def _drop_token(spec: dict[str, Any]) -> None:
    """Recorded on a server that mounts no token into pods; ours does when its admission plugin is on."""
    is_token = "kube-api-access-"
    spec["volumes"] = [volume for volume in spec.get("volumes", []) if not volume["name"].startswith(is_token)]
    for container in spec.get("containers", []):
        mounts = [mount for mount in container.get("volumeMounts", []) if not mount["name"].startswith(is_token)]
        container["volumeMounts"] = mounts
        if not mounts:
            del container["volumeMounts"]
    if not spec["volumes"]:
        del spec["volumes"]
    for key in ("serviceAccount", "serviceAccountName"):
        spec.pop(key, None)
