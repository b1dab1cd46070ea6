"""Every example ends well by `pyroclast run`."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.e2e.cli.test_command import follow
from tests.e2e.newcomers.test_half_hour import clean_up
from tests.e2e.support.cluster import Cluster

EXAMPLES = [path for path in sorted(Path("examples").glob("*.yaml")) if path.stem != "cron"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_manifest_completes_with_pyroclast_run(
    cluster: Cluster, namespace: str, tmp_path: Path, example: Path
) -> None:
    if example.stem == "volumes" and cluster.control_plane == "real":
        pytest.skip("nobody makes volumes there: the claim of the Job would stay Pending")
    objects = list(yaml.safe_load_all(example.read_text()))
    done = follow(cluster, namespace, tmp_path, *objects)
    assert done.returncode == 0, done.stdout + done.stderr
    cluster.kubectl("delete", "vcjob,jf,hyperjob", "--all", "-n", namespace)
    clean_up(cluster, objects)
