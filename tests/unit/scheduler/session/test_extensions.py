"""Actions and plugins of others, from a package that is really installed."""

import subprocess
import sys
import zipfile

import pytest

MODULE = """
from pyroclast_scheduler.session.extension_points import Extensions

class Reluctant:
    def __init__(self, arguments):
        self._most = arguments.integer("most", 1)

    def open(self, session):
        return Extensions(allocatable=lambda queue, plan, count: min(count, self._most))

def execute(session, arguments):
    session.report.warnings.append(f"shout: {arguments.text('what', 'hey')}")
"""
POINTS = """
[pyroclast.scheduler.plugins]
reluctant = beside:Reluctant
gang = beside:Reluctant
gone = beside:Missing

[pyroclast.scheduler.actions]
shout = beside:execute
"""
PROGRAM = """
from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.cycle import run_cycle
from pyroclast_scheduler.session.configuration import parse
from pyroclast_scheduler.session.ports import Ports
from tests.scenarios.runner import feed

actions, plugins = registry.actions(), registry.plugins()
text = '''
actions: "enqueue, allocate, shout"
tiers: [{plugins: [{name: gang}, {name: gone}, {name: reluctant, arguments: {most: 2, least: 1}}]}]
configurations: [{name: shout, arguments: {what: ho}}]
'''
configuration = parse(text, actions=actions, plugins=plugins, skip_unknown_plugins=True)
cache, binds = Cache(), []
pods = [[f"p{i}", "j", "-", 1, "1Gi"] for i in range(2)]
groups = [["j", "q", 2, {"phase": "Inqueue"}]]
feed(cache, {"nodes": [["n", 8, "16Gi"]], "queues": [["q", {}]], "podgroups": groups, "pods": pods})
ports = Ports(commit=lambda commit: binds.extend(pair for each in commit.binds for pair in each.placed))
outcome = run_cycle(cache.snapshot(), configuration, actions=actions, plugins=plugins, ports=ports, uid="u")
print(len(binds), configuration.warnings, outcome.warnings)
"""


@pytest.fixture
def installed(tmp_path):
    """A folder into which a wheel was installed."""
    wheel = tmp_path / "beside-1.0-py3-none-any.whl"
    files = {
        "beside.py": MODULE,
        "beside-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: beside\nVersion: 1.0\n",
        "beside-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "beside-1.0.dist-info/entry_points.txt": POINTS,
    }
    record = "".join(f"{name},,\n" for name in (*files, "beside-1.0.dist-info/RECORD"))
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in {**files, "beside-1.0.dist-info/RECORD": record}.items():
            archive.writestr(name, text)
    target = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target), str(wheel)]
    subprocess.run(command, check=True)
    return target


def test_an_installed_package_adds_an_action_and_a_plugin_by_entry_points(installed):
    program = f"import sys; sys.path.insert(0, {str(installed)!r})\n{PROGRAM}"
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    *_, line = done.stdout.splitlines() or [done.stderr]
    assert line == ("2 ('line 3: Failed to get plugin gone.',) ['plugin reluctant: argument least is unknown', 'shout: ho']"), (
        done.stderr
    )
    assert "extension.name_taken" in done.stdout + done.stderr
    assert "extension.not_loaded" in done.stdout + done.stderr
