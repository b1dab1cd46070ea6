"""Both pages about moving, followed by their code blocks: to Pyroclast and back, with a release of Volcano that helm installed.

Volcano's programs are recorded Deployments. No controller of Deployments runs here, so nothing waits for pods, and `helm test`
does not run; `make test-cluster` runs it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.unit.chart.conftest import helm  # noqa: F401 - a fixture
from tests.unit.docs.pages import PAGES, ROOT, blocks

PROGRAMS = {
    "scheduler": ["vc-scheduler", "--scheduler-conf=/volcano.scheduler/volcano-scheduler.conf", "--schedule-period=2s"],
    "controller": ["vc-controller-manager", "--worker-threads=7"],
    "admission": ["vc-webhook-manager", "--enabled-admission=/jobs/mutate"],
}
ROLES = ("vcjob-viewer-role", "vcjob-editor-role")
COMMANDS = ("pyroclast ", "helm ", "kubectl ")


def chart(folder: Path) -> Path:
    """A chart of Volcano: its Deployments, one webhook, and the two roles that our chart has too."""
    objects: list[dict[str, object]] = []
    for name, words in PROGRAMS.items():
        labels = {"app": f"volcano-{name}"}
        pod = {"containers": [{"name": name, "image": f"volcanosh/{words[0]}:v1.12.0", "command": words[:1], "args": words[1:]}]}
        spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
        metadata = {"name": f"volcano-{name}", "labels": labels}
        objects.append({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
    service = {"selector": {"app": "volcano-admission"}, "ports": [{"port": 443}]}
    objects.append({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "volcano-admission-service"}, "spec": service})
    hook = {
        "name": "validatejob.volcano.sh",
        "clientConfig": {
            "service": {"namespace": "volcano-system", "name": "volcano-admission-service", "path": "/jobs/validate"}
        },
        "rules": [{"apiGroups": ["x.example"], "apiVersions": ["v1"], "resources": ["none"], "operations": ["CREATE"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    objects.append({**kind, "metadata": {"name": "volcano-admission-service-jobs-validate"}, "webhooks": [hook]})
    for name in ROLES:
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": []}
        objects.append(role)
    (folder / "volcano/templates").mkdir(parents=True)
    (folder / "volcano/Chart.yaml").write_text("apiVersion: v2\nname: volcano\nversion: 1.12.0\n")
    (folder / "volcano/templates/all.yaml").write_text(yaml.safe_dump_all(objects))
    return folder / "volcano"


class Reader:
    """Somebody who types what the pages say, with the kubeconfig in `~/.kube/config`."""

    def __init__(self, kubeconfig: Path, folder: Path, program: Path) -> None:
        self.folder = folder
        (folder / ".kube").mkdir()
        (folder / ".kube/config").write_text(kubeconfig.read_text())
        (folder / "charts").symlink_to(ROOT / "charts")
        path = [str(Path(sys.executable).parent), str(program.parent), os.environ["PATH"]]
        self.environment = {**os.environ, "HOME": str(folder), "PATH": os.pathsep.join(path)}
        self.environment.pop("KUBECONFIG", None)

    def types(self, command: str) -> str:
        command = command.replace(" --wait", "").replace("volcano-sh/volcano", "./volcano")
        words = ["bash", "-o", "pipefail", "-c", command]
        done = subprocess.run(
            words, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=180, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def follows(self, page: str, *, without: tuple[str, ...]) -> None:
        for text in blocks(PAGES[page], ""):
            lines = text.replace("\\\n", " ").splitlines()
            for command in (line for line in lines if line.startswith(COMMANDS) and not line.startswith("helm test")):
                if not any(part in command for part in without):
                    self.types(command)

    def replicas(self, name: str) -> int:
        found = json.loads(self.types(f"kubectl get deployment {name} -n volcano-system -o json"))
        return int(found["spec"]["replicas"])


@pytest.mark.timeout(400)
@pytest.mark.parametrize("keeps_release", [True, False], ids=["the release stays", "the release is uninstalled"])
def test_who_follows_both_pages_moves_and_moves_back(bare: Path, helm: Path, tmp_path: Path, keeps_release: bool) -> None:  # noqa: F811
    reader = Reader(bare, tmp_path, helm)
    chart(tmp_path)
    reader.types("pyroclast crds | kubectl apply --server-side -f -")
    reader.types("helm install volcano ./volcano -n volcano-system --create-namespace")
    reader.follows("docs/how-to/move-from-volcano.md", without=("uninstall volcano",) if keeps_release else ())
    values = yaml.safe_load((tmp_path / "values.yaml").read_text())
    assert values["custom"]["scheduler_schedule_period"] == "2s"
    assert values["custom"]["controller_worker_threads"] == 7
    assert reader.types(f"kubectl get clusterrole {' '.join(ROLES)} -o name").count("vcjob") == 2
    if keeps_release:
        assert [reader.replicas(f"volcano-{name}") for name in PROGRAMS] == [0, 0, 0]
    others = ("pyroclast release", "helm install volcano") if keeps_release else ("--back",)
    reader.follows("docs/how-to/move-back-to-volcano.md", without=others)
    assert [reader.replicas(f"volcano-{name}") for name in PROGRAMS] == [1, 1, 1]
    assert "volcano-admission-service-jobs-validate" in reader.types("kubectl get validatingwebhookconfigurations -o name")
    assert reader.types(f"kubectl get clusterrole {' '.join(ROLES)} -o name").count("vcjob") == 2
