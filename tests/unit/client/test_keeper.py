"""The process that keeps a local control plane says why it ended, and no more."""

import subprocess
import sys


def test_keeper_reports_in_one_line_why_the_local_control_plane_cannot_start(tmp_path):
    command = [sys.executable, "-m", "pyroclast_client.keeper", str(tmp_path / "plane"), "--node-mode", "nonsense"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as keeper:
        said = keeper.stdout.read()  # our end of its input stays open until here
    assert said.startswith("pyroclast: argument --node-mode: invalid choice: 'nonsense'")
    assert said.count("\n") == 1
