"""The distributions: what goes onto a cluster serves without the command lines, the embedded API server and simulated nodes."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from pyroclast_standalone.control_plane import Options, running
from pyroclast_standalone.directory import DataDirectory

ROOT = Path(__file__).parents[3]
STANDALONE = ROOT / "services" / "pyroclast_standalone"
COMMAND_LINE = ROOT / "services" / "pyroclast_cli"
CLIENT = ROOT / "services" / "pyroclast_client"
API = ROOT / "libs" / "pyroclast"
SNAKEMAKE = ROOT / "services" / "snakemake_executor_plugin_pyroclast"
HYDRA = ROOT / "services" / "hydra_plugins" / "pyroclast_launcher"
PACKAGES = {
    "pyroclast_admission",
    "pyroclast_board",
    "pyroclast_job_controller",
    "pyroclast_jobflow_controller",
    "pyroclast_recorder",
    "pyroclast_scheduler",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """The wheel of a project, built when it is first asked for."""

    @cache
    def build(project: Path) -> Path:
        folder = tmp_path_factory.mktemp("wheel")
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(command, cwd=project, check=True, capture_output=True)
        (built,) = folder.glob("*.whl")
        return built

    return build


def packages_of(built: Path) -> set[str]:
    top = {name.split("/")[0] for name in zipfile.ZipFile(built).namelist()}
    return {name for name in top if not name.endswith(".dist-info")}


def test_each_wheel_contains_only_its_own_packages(wheel):
    assert packages_of(wheel(ROOT)) == PACKAGES
    assert packages_of(wheel(API)) == {"pyroclast"}
    assert packages_of(wheel(STANDALONE)) == {"pyroclast_standalone"}
    assert packages_of(wheel(COMMAND_LINE)) == {"pyroclast_cli"}
    assert packages_of(wheel(SNAKEMAKE)) == {SNAKEMAKE.name}
    assert packages_of(wheel(HYDRA)) == {"hydra_plugins"}
    client = wheel(CLIENT)
    assert packages_of(client) == {"pyroclast_client"}
    assert client.stat().st_size < 200_000
    assert {"pyroclast_client/py.typed", "pyroclast_client/runner/standin.py"} <= set(zipfile.ZipFile(client).namelist())


@pytest.mark.parametrize("folder", [API, STANDALONE, COMMAND_LINE, CLIENT, SNAKEMAKE, HYDRA], ids=lambda folder: folder.name)
def test_distributions_share_one_version_and_lock_files_pin_their_dependencies(folder):
    ours, beside = (tomllib.loads((each / "pyproject.toml").read_text())["project"] for each in (ROOT, folder))
    assert beside["version"] == ours["version"]
    own = [need for need in (*ours["dependencies"], *beside["dependencies"]) if need.startswith("pyroclast")]
    assert {need.partition("==")[2] for need in own} == {ours["version"]}
    locks = [ROOT / "requirements.lock", *([ROOT / "requirements-dev.lock"] if folder == CLIENT else [])]
    if folder in (SNAKEMAKE, HYDRA):
        return  # Snakemake and Hydra are pinned where they are tested, in `tests/third_party/versions.toml`
    pinned = {line.split("==")[0] for lock in locks for line in lock.read_text().splitlines() if "==" in line}
    assert {need.split(">=")[0] for need in beside["dependencies"] if ">=" in need} <= pinned


@pytest.fixture(scope="module")
def environment(wheel: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that holds the wheels of the services, what they require, and nothing else."""
    folder, uv = tmp_path_factory.mktemp("services") / "environment", [sys.executable, "-m", "uv"]
    python = folder / "bin" / "python"
    subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    install = [*uv, "pip", "install", "--quiet", "--python", str(python)]
    subprocess.run([*install, "--require-hashes", "-r", str(ROOT / "requirements.lock")], check=True)
    subprocess.run([*install, "--no-deps", str(wheel(ROOT)), str(wheel(API))], check=True)
    lacks = subprocess.run([python, "-c", "import pyroclast_standalone"], capture_output=True, text=True, check=False)
    assert "No module named 'pyroclast_standalone'" in lacks.stderr
    return python


async def test_all_services_run_from_the_installed_wheels(bare, environment, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(environment))
    said: list[str] = []
    options = Options(DataDirectory(tmp_path / "data"), kubeconfig=bare, nodes=0)
    async with running(options, said.append) as plane:
        assert len(plane.services) == 6
    assert not [line for line in said if " ended (" in line]


CLIENT_ALONE = """
import pyroclast.client as pc
assert all(getattr(pc, name) for name in pc.__all__)
@pc.task(image="python")
def double(number: int) -> int:
    return 2 * number
assert double(2) == 4
call = double.call(2)
from pyroclast_client.compilation import Surroundings, compiled
from pyroclast_client.checking import checked_job
checked_job(compiled(call.function, [call.arguments], call.options, Surroundings("default"), name="a").job)
try:
    pc.local()
except pc.errors.Usage as error:
    print(error)
"""


def test_client_wheel_works_without_the_control_plane_installed(environment, wheel, tmp_path):
    locked = (ROOT / "requirements-dev.lock").read_text().split("\ncloudpickle==")[1].split()[0]
    install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", str(environment), "--no-deps"]
    subprocess.run([*install, str(wheel(CLIENT)), f"cloudpickle=={locked}"], check=True)
    done = subprocess.run([environment, "-c", CLIENT_ALONE], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "local: the control plane is not installed; `pip install 'pyroclast-client[local]'`\n", done.stderr


DIRECT = {"aiohttp", "cloudpickle", "google-re2", "msgspec", "orjson", "pydantic", "pyyaml", "structlog", "tzdata"}
"""What the client and the part that it shares with the command line require."""
INDIRECT = {
    *(
        "aiohappyeyeballs",
        "aiosignal",
        "annotated-types",
        "attrs",
        "frozenlist",
        "idna",
        "multidict",
        "propcache",
        "pydantic-core",
    ),
    *("typing-extensions", "typing-inspection", "yarl"),
}
TYPES = """
from typing import Any, assert_type
import pyroclast.client as pc

@pc.task(gang=4)
def hello(name: str) -> int:
    return pc.rank()

@pc.flow(store="file:///shared")
def nightly(name: str) -> int:
    return hello(name)

assert_type(hello("a"), int)
assert_type(hello.run("a"), pc.Job[int])
assert_type(hello.run("a").wait(), pc.Job[int])
assert_type(hello.run("a").result(), int)
assert_type(hello.run("a").results(), list[int | pc.errors.PyroclastError])
assert_type(hello.using(cpu=1).run("a").result(), int)
assert_type(hello.sweep(name=["a", "b"]), pc.Sweep[int])
assert_type(hello.sweep(name=["a", "b"]).results(), list[int | pc.errors.PyroclastError])
assert_type(hello.sweep(name=["a"]).jobs, list[pc.Job[int]])
assert_type(list(hello.map(["a", "b"])), list[int])
assert_type(nightly.run("a"), pc.Flow[int])
assert_type(nightly.run("a").result(), int)
assert_type(nightly.local("a"), int)
assert_type(pc.torchrun("train.py", nodes=2), pc.Job[None])
assert_type(pc.job("a").result(), Any)
hello.run(3)
hello.run()

with pc.Client() as client, pc.Executor(client=client) as executor:
    assert_type(client.submit(hello.call("a")).result(), int)
    assert_type(client.submit({}).result(), Any)
    assert_type(client.jobs(), list[pc.Job[Any]])
    assert_type(executor.submit(hello.function, "a").result(), int)
    assert_type(list(executor.map(len, ["a"])), list[int])

async def there() -> None:
    async with pc.AsyncClient() as client:
        job = await client.submit(hello.call("a"))
        assert_type(await job.result(), int)
        sweep = await client.submit(hello.calls(name=["a"]))
        assert_type(await sweep.results(), list[int | pc.errors.PyroclastError])
        flow = await client.submit(nightly.call("a"))
        assert_type(await flow.result(), int)
"""


@pytest.fixture(scope="module")
def alone(wheel: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment into which nothing was installed but the wheel of the client, with what that requires."""
    folder, uv = tmp_path_factory.mktemp("client") / "environment", [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    locked = tmp_path_factory.mktemp("lock") / "constraints"
    locked.write_text("".join((ROOT / name).read_text() for name in ("requirements.lock", "requirements-dev.lock")))
    install = [*uv, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), "--constraint", str(locked)]
    links = ["--find-links", str(wheel(API).parent), "--find-links", str(wheel(CLIENT).parent)]
    subprocess.run([*install, *links, "pyroclast-client==" + version_of(CLIENT)], check=True)
    return folder / "bin" / "python"


def version_of(project: Path) -> str:
    return str(tomllib.loads((project / "pyproject.toml").read_text())["project"]["version"])


def outside() -> dict[str, str]:
    """The environment of this process, without the way to the checkout."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def test_client_wheel_installs_only_the_expected_dependencies(alone, tmp_path):
    listed = [sys.executable, "-m", "uv", "pip", "list", "--format", "json", "--python", str(alone)]
    found = {each["name"] for each in json.loads(subprocess.run(listed, check=True, capture_output=True).stdout)}
    assert found == {"pyroclast-api", "pyroclast-client"} | DIRECT | INDIRECT
    program = [alone, "-c", CLIENT_ALONE]
    done = subprocess.run(program, cwd=tmp_path, env=outside(), capture_output=True, text=True, check=False)
    assert "the control plane is not installed" in done.stdout, done.stderr


def test_mypy_checks_argument_types_of_client_tasks(alone, tmp_path):
    (tmp_path / "types_of_users.py").write_text(TYPES)
    programs = sorted(str(path) for path in (ROOT / "examples" / "python").glob("*.py"))
    mypy = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--config-file=", f"--python-executable={alone}"]
    mypy += [*programs, "types_of_users.py"]
    done = subprocess.run(mypy, cwd=tmp_path, env=outside(), capture_output=True, text=True, check=False)
    wrong = [line for line in done.stdout.splitlines() if ": error: " in line]
    lines = TYPES.splitlines()
    assert [lines[int(line.split(":")[1]) - 1] for line in wrong if line.startswith("types_of_users.py")] == [
        "hello.run(3)",
        "hello.run()",
    ], done.stdout + done.stderr
    assert len(wrong) == 2, done.stdout


def test_vcctl_works_with_only_the_api_package_installed(wheel, tmp_path):
    python, uv = tmp_path / "environment" / "bin" / "python", [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, str(python.parents[1])], check=True)
    needs = tomllib.loads((API / "pyproject.toml").read_text())["project"]["dependencies"]
    install = [*uv, "pip", "install", "--quiet", "--python", str(python)]
    subprocess.run([*install, "--constraint", str(ROOT / "requirements.lock"), *needs], check=True)
    subprocess.run([*install, "--no-deps", str(wheel(API)), str(wheel(COMMAND_LINE))], check=True)
    config = tmp_path / "kubeconfig"
    user = {"name": "u", "user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "token"}}}
    context = {"name": "c", "context": {"cluster": "k", "user": "u"}}
    cluster = {"name": "k", "cluster": {"server": "http://127.0.0.1:1"}}
    content = {"users": [user], "contexts": [context], "clusters": [cluster], "current-context": "c"}
    config.write_text(json.dumps(content))
    vcctl = [str(python.parent / "vcctl")]
    linted = subprocess.run(
        [*vcctl, "lint", "-f", str(ROOT / "examples" / "gang.yaml")], capture_output=True, text=True, check=False
    )
    assert linted.returncode == 0, linted.stderr
    asked = subprocess.run([*vcctl, "waiting", "--kubeconfig", str(config)], capture_output=True, text=True, check=False)
    assert asked.returncode == 1
    assert "which needs kubernetes_asyncio: pip install 'pyroclast-api[cloud]'" in asked.stderr


FIRST = """
import pyroclast.client as pc
@pc.task
def add(a: int, b: int) -> int:
    return a + b
if __name__ == "__main__":
    with pc.local(nodes=1):
        print(add.run(1, 2).result())
"""


def test_the_wheels_of_a_checkout_install_and_run_as_the_tutorial_says(tmp_path):
    command = next(
        line for line in (ROOT / "docs/tutorials/python.md").read_text().splitlines() if line.startswith("pip install ")
    )
    subprocess.run(["make", "wheels", f"DIST={tmp_path}/dist"], cwd=ROOT, check=True, capture_output=True)
    assert len(list((tmp_path / "dist").glob("*.whl"))) == 7
    uv, python = [sys.executable, "-m", "uv"], tmp_path / "fresh" / "bin" / "python"
    subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, str(tmp_path / "fresh")], check=True)
    install = [*uv, "pip", "install", "--quiet", "--python", str(python), *shlex.split(command)[2:]]
    subprocess.run(install, cwd=tmp_path, check=True)
    (tmp_path / "first.py").write_text(FIRST)
    done = subprocess.run([python, "first.py"], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
