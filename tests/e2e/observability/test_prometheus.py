"""A real Prometheus reads a control plane at work: it understands every panel, and those of queues are not empty."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from pyroclast.api.types import QUEUES
from pyroclast_standalone.processes import free_port
from tests.e2e.faults.test_faults import phases
from tests.e2e.jobs.test_first_light import job
from tests.e2e.support.board import shows
from tests.e2e.support.cluster import Cluster, wait_until

DASHBOARDS = Path(__file__).parents[3] / "charts" / "pyroclast" / "dashboards"
OF_QUEUES = ("queues", "waiting")


@contextmanager
def prometheus(folder: Path, targets: dict[str, str]) -> Iterator[str]:
    """Scrapes addresses by name every second; its URL."""
    if shutil.which("prometheus") is None:
        pytest.skip("there is no Prometheus; on Debian: apt-get install prometheus")
    scraped = [
        {"targets": [address], "labels": {"namespace": "pyroclast-system", "service": f"pyroclast-{name}-service"}}
        for name, address in targets.items()
    ]
    jobs = [{"job_name": "pyroclast", "static_configs": scraped}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump({"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}))
    address = f"127.0.0.1:{free_port()}"
    command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*command, f"--web.listen-address={address}"], stdout=log, stderr=log)
    try:
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait()


def ask(url: str, expression: str) -> list[Any]:
    """What an expression gives now; none while Prometheus is just starting."""
    query = urllib.parse.urlencode({"query": expression.replace("$__rate_interval", "1m").replace("$queue", ".*")})
    try:
        with urllib.request.urlopen(f"{url}/api/v1/query?{query}", timeout=10) as answer:
            found: list[Any] = json.load(answer)["data"]["result"]
            return found
    except urllib.error.HTTPError as error:
        if error.code == 503:  # it is just starting
            return []
        raise AssertionError(f"{expression}: {error.read().decode()}") from error
    except OSError:
        return []


def expressions(name: str) -> list[str]:
    dashboard = json.loads((DASHBOARDS / f"{name}.json").read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


SERIES = '{__name__=~"pyroclast_(waiting|oldest|longest|never|queue|wait|run|job|crashing|estimate|budget).*",queue="%s"}'


@pytest.fixture
def queue(cluster: Cluster, namespace: str) -> Iterator[str]:
    """A queue of the test's own: in `default` other tests have Jobs of all kinds."""
    name = f"q-{namespace[-6:]}"
    body = {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind, "metadata": {"name": name}, "spec": {"weight": 1}}
    cluster.create(json.dumps(body))
    wait_until(lambda: cluster.get("queue", name).get("status", {}).get("state") == "Open", "the queue to open")
    yield name
    cluster.kubectl("delete", "vcjob", "--all", "-n", namespace)
    wait_until(lambda: not cluster.get("podgroups.scheduling.volcano.sh", "-n", namespace)["items"], "the PodGroups to go")
    cluster.kubectl("delete", "queue", name, "--wait=false")


@pytest.mark.timeout(600)
def test_prometheus_evaluates_every_dashboard_panel_and_queue_panels_have_data(
    cluster: Cluster, namespace: str, queue: str, tmp_path: Path
) -> None:
    targets = json.loads((cluster.data / "addresses.json").read_text())
    with prometheus(tmp_path, targets) as url:
        wait_until(lambda: len(ask(url, "up == 1")) == len(targets), "all services to be scraped")
        never = job("never", command=["sleep", "1"], replicas=1, queue=queue).replace("100m", "900")
        cluster.create(never, namespace)
        for number in range(3):
            short = job(f"short-{number}", command=["sleep", "2"], replicas=2, queue=queue)
            cluster.create(short, namespace)
        wait_until(lambda: phases(cluster, namespace).get("Completed") == 3, "the short Jobs to complete")
        shows(cluster, f"/jobs?namespace={namespace}", "never")
        for name in OF_QUEUES:
            for expression in expressions(name):
                wait_until(lambda asked=expression: ask(url, asked), f"{name}: {expression} not to be empty")
        for path in DASHBOARDS.glob("*.json"):
            for expression in expressions(path.stem):
                ask(url, expression)
        series = [each["metric"] for each in ask(url, SERIES % queue)]
        assert 10 < len(series) <= 40, series
