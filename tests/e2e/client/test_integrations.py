"""The packages that people have already, each with its real version in an environment of its own, on nodes that run processes.

What is checked is in `tests/third_party/check_NAME.py`.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.support.cluster import Cluster
from tests.third_party.environments import ROOT, NotInstalled, environment, site

CHECKS = ROOT / "tests" / "third_party"

pytestmark = [pytest.mark.thirdparty, pytest.mark.timeout(700)]  # the first time they install


@pytest.fixture(scope="module")
def cluster(process_nodes: Cluster) -> Cluster:
    return process_nodes


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return site(tmp_path_factory.mktemp("wheels"))


@pytest.mark.parametrize("name", sorted(path.stem.removeprefix("check_") for path in CHECKS.glob("check_*.py")))
def test_third_party_package_passes_its_integration_checks(
    name: str, cluster: Cluster, namespace: str, ours: Path, tmp_path: Path
) -> None:
    try:
        python = environment(name)
    except NotInstalled as error:
        pytest.skip(str(error))
    variables = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "PYTHONPATH": str(ours), "HOME": str(tmp_path)}
    variables["PYROCLAST_TEST_NAMESPACE"] = namespace
    check = CHECKS / f"check_{name}.py"
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, f"--confcutdir={check.parent}", check]
    done = subprocess.run(command, env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
