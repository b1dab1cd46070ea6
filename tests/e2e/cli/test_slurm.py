"""The commands of Slurm on process nodes, with a real terminal."""

import json
import os
import pty
import re
import select
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

import pyroclast_client as pc

VCCTL = str(Path(sys.executable).with_name("vcctl"))
SECONDS = 60


@pytest.fixture(scope="module")
def plane(control_plane):
    if control_plane == "real":
        pytest.skip("the local client has a control plane of its own")
    with pc.local(nodes=2, gpus=2) as client:
        yield client


def vcctl(plane, *arguments, folder, **more):
    command = [VCCTL, *arguments]
    environ = {**os.environ, "KUBECONFIG": plane.kubeconfig}
    return subprocess.run(command, env=environ, cwd=folder, capture_output=True, text=True, check=False, timeout=SECONDS, **more)


class Terminal:
    """A program with a terminal of its own."""

    def __init__(self, plane, command, folder):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.environ.update(KUBECONFIG=plane.kubeconfig, PS1="$ ")
            os.execv(VCCTL, [VCCTL, *shlex.split(command)])
        self.shown = ""

    def type(self, text):
        os.write(self.terminal, text.encode())

    def until(self, pattern):
        """Read until the pattern is shown behind what was matched before."""
        deadline = time.monotonic() + SECONDS
        while (match := re.search(pattern, self.shown)) is None:
            assert time.monotonic() < deadline, f"{pattern} is not in {self.shown!r}"
            if select.select([self.terminal], [], [], 0.2)[0]:
                try:
                    self.shown += os.read(self.terminal, 65536).decode(errors="replace")
                except OSError:
                    raise AssertionError(f"ended without {pattern}: {self.shown!r}") from None
        self.shown = self.shown[match.end() :]
        return match

    def end(self):
        """The exit status."""
        deadline = time.monotonic() + SECONDS
        while (ended := os.waitpid(self.pid, os.WNOHANG))[0] == 0:
            assert time.monotonic() < deadline, f"it goes on: {self.shown!r}"
            if select.select([self.terminal], [], [], 0.05)[0]:
                try:
                    self.shown += os.read(self.terminal, 65536).decode(errors="replace")
                except OSError:
                    continue
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(ended[1])


SCRIPT = """#!/bin/bash
#SBATCH --job-name=steps --ntasks=2
#SBATCH -o lines-%x.txt
echo "first $1"
srun sh -c 'echo "rank $SLURM_PROCID of $SLURM_NTASKS"'
cat <<END
host $(scontrol show hostnames)
END
exit 5
"""


def test_a_script_runs_its_steps_writes_its_files_and_its_exit_code_is_that_of_sbatch(plane, tmp_path):
    (tmp_path / "script.sh").write_text(SCRIPT)
    run = vcctl(plane, "sbatch", "--wait", "script.sh", "word", folder=tmp_path)
    name = re.fullmatch(r"Submitted batch job (steps-[a-z0-9]{5})\n", run.stdout)[1]
    assert run.returncode == 5, run.stderr
    lines = (tmp_path / "lines-steps.txt").read_text().splitlines()
    assert (lines[0], set(lines[1:3]), lines[3:]) == ("first word", {"rank 0 of 2", "rank 1 of 2"}, [f"host {name}-batch-0"])
    assert vcctl(plane, "squeue", "-h", "-j", name, folder=tmp_path).stdout == ""
    assert vcctl(plane, "squeue", "-h", "-t", "F", "-j", name, folder=tmp_path).stdout.split()[:5] == [
        *(name, "default", "steps", "kubernet", "F"),
    ]


def test_run_starts_a_command_of_this_folder_and_returns_its_exit_code(plane, tmp_path):
    (tmp_path / "train.py").write_text("import sys; print('argument', *sys.argv[1:]); sys.exit(9)")
    run = vcctl(plane, "run", "--", "python", "train.py", "--lr", "0.1", folder=tmp_path)
    assert (run.returncode, run.stdout) == (9, "argument --lr 0.1\n")
    run = vcctl(plane, "run", "--", "sh", "-c", "kill -0 $$ && echo $(echo $((1 + 1)))", folder=tmp_path)
    assert (run.returncode, run.stdout) == (0, "2\n")
    where = 'echo "$PET_NODE_RANK of $PET_NNODES, $PET_NPROC_PER_NODE at $MASTER_ADDR"'
    run = vcctl(plane, "run", "--gpus", "2", "--nodes", "2", "--", "sh", "-c", where, folder=tmp_path)
    assert sorted(line.split(" at ")[0] for line in run.stdout.splitlines()) == ["0 of 2, 1", "1 of 2, 1"]


def test_ctrl_c_asks_and_the_job_goes_on_or_is_cancelled(plane, tmp_path):
    leaving = Terminal(plane, "run -- sh -c 'echo begun; sleep 60'", tmp_path)
    leaving.until("begun")
    leaving.type("\x03")
    leaving.until(r"cancel (\S+), leave it running, or stay")
    leaving.type("l\n")
    name = leaving.until(r"(\S+) goes on")[1]
    assert leaving.end() == 130
    assert vcctl(plane, "squeue", "-h", "-j", name, folder=tmp_path).stdout.split()[4] == "R"
    cancelling = Terminal(plane, "run -- sh -c 'echo begun; sleep 60'", tmp_path)
    cancelling.until("begun")
    cancelling.type("\x03")
    cancelling.until("or stay")
    cancelling.type("c\n")
    assert cancelling.end() == 130
    assert vcctl(plane, "scancel", name, folder=tmp_path).returncode == 0
    rows = vcctl(plane, "squeue", "-t", "all", "-h", "-j", name, folder=tmp_path).stdout.split()
    assert rows[4] in {"CA", "CG"}


def test_a_terminal_in_a_pod_is_a_real_one_and_its_exit_code_ends_the_job(plane, tmp_path):
    shell = Terminal(plane, "srun --pty bash --norc", tmp_path)
    shell.type("stty size; echo at $SLURM_NTASKS $PWD; [ -t 0 ] && echo termi''nal\n")
    shell.until(r"\d+ \d+\r\n")
    shell.until(re.escape(f"at 1 {tmp_path}"))
    shell.until("terminal\r\n")
    shell.type("sleep 50\n")
    time.sleep(0.5)
    shell.type("\x03")  # reaches the program in the pod, not vcctl
    shell.type("echo back $?\n")
    shell.until("back 130")
    shell.type("exit 6\n")
    assert shell.end() == 6
    (row,) = vcctl(plane, "squeue", "-h", "--me", "-n", "bash", "-t", "all", folder=tmp_path).stdout.splitlines()
    assert row.split()[4] in {"R", "F", "CG"}


def test_a_shell_that_nobody_uses_is_released(plane, tmp_path):
    idle = Terminal(plane, "shell --idle 5s", tmp_path)
    idle.type("echo rea''dy\n")
    idle.until("ready\r\n")
    assert idle.end() != 0
    busy = Terminal(plane, "shell --idle 5s", tmp_path)
    busy.type("end=$(($(date +%s) + 12)); while [ $(date +%s) -lt $end ]; do :; done; echo survi''ved; exit\n")
    busy.until("survived\r\n")
    assert busy.end() == 0


def test_a_user_without_exec_gets_the_api_servers_sentence_and_keeps_no_job(plane, tmp_path):
    rules = [
        {"apiGroups": ["batch.volcano.sh", "bus.volcano.sh"], "resources": ["jobs", "commands"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["secrets", "pods"], "verbs": ["get", "list", "create", "patch", "delete"]},
    ]
    meta, subject = {"name": "no-exec"}, {"kind": "User", "name": "ada", "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"kind": "ClusterRole", "name": "no-exec", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "ClusterRole", "metadata": meta, "rules": rules}
    binding = {"kind": "ClusterRoleBinding", "metadata": meta, "roleRef": reference, "subjects": [subject]}
    for each in (role, binding):
        body = json.dumps({"apiVersion": "rbac.authorization.k8s.io/v1", **each})
        command = ["kubectl", "--kubeconfig", plane.kubeconfig, "create", "-f", "-"]
        subprocess.run(command, input=body, text=True, check=True, timeout=SECONDS, capture_output=True)
    as_ada = yaml.safe_load(Path(plane.kubeconfig).read_text())
    as_ada["users"][0]["user"]["as"] = "ada"
    (tmp_path / "ada").write_text(yaml.safe_dump(as_ada))
    shell = Terminal(plane, f"shell --kubeconfig {tmp_path}/ada", tmp_path)
    shell.until(r'User "ada" cannot (create|get) resource "pods/exec" in API group ""')
    assert shell.end() == 1
    rows = vcctl(plane, "squeue", "-u", "ada", "-h", folder=tmp_path).stdout.split()
    assert not rows or rows[4] == "CG"


def test_links_with_slurms_names_are_these_commands(plane, tmp_path):
    links = tmp_path / "bin"
    assert vcctl(plane, "slurm-names", str(links), folder=tmp_path).returncode == 0
    environ = {**os.environ, "KUBECONFIG": plane.kubeconfig, "PATH": f"{links}:{os.environ['PATH']}"}
    shown = subprocess.run(["sinfo", "-h"], env=environ, capture_output=True, text=True, check=True, timeout=SECONDS).stdout
    assert shown.split()[:3] == ["default*", "up", "infinite"]
    assert vcctl(plane, "slurm-names", str(links), folder=tmp_path).stdout == ""
