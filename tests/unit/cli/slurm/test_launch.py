"""The launcher of submitted Jobs, in each shell of this machine that an image may have as `sh`."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from pyroclast_cli.slurm.jobs import LAUNCHER

SHELLS = [words for words in (["dash"], ["bash", "--posix"], ["busybox", "sh"]) if shutil.which(words[0])]
BASE = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": "job-abcde", "SLURM_JOB_NAME": "job", "VCCTL_USER": "ada"}


@pytest.fixture(params=SHELLS, ids=lambda words: words[0])
def launch(request, tmp_path):
    """Start the launcher in a folder, with a script and variables."""
    files, run, work = tmp_path / "files", tmp_path / "run", tmp_path / "work"
    for folder in (files, run, work):
        folder.mkdir()
    for name in ("launch", "srun", "scontrol"):
        shutil.copy(LAUNCHER, files / name)
        (files / name).chmod(0o755)

    def start(*words, script="", **environ):
        (files / "script").write_text(f"#!/bin/sh\n{script}\n")
        (files / "script").chmod(0o755)
        environ = {**BASE, "VCCTL_RUN": str(run), **environ}
        command = [*request.param, str(files / "launch"), *words]
        return subprocess.Popen(command, env=environ, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    start.run, start.work = run, work
    return start


def ended(process):
    out, err = process.communicate(timeout=30)
    return out, err, process.returncode


def test_a_script_gets_its_arguments_and_its_exit_code_is_kept(launch):
    assert ended(launch("batch", "a b", "$c", script='printf "<%s>" "$@"; exit 7')) == ("<a b><$c>", "", 7)


def test_output_goes_to_the_log_and_to_files_whose_names_have_patterns(launch):
    names = {"VCCTL_OUTPUT": "%x-%j-%3a-%u-100%%.out", "VCCTL_ERROR": "%A.err", "VC_TASK_INDEX": "5"}
    assert ended(launch("batch", script="echo out; echo err >&2", **names)) == ("out\n", "err\n", 0)
    assert (launch.work / "job-job-abcde-005-ada-100%.out").read_text() == "out\n"
    assert (launch.work / "job-abcde.err").read_text() == "err\n"


def test_a_file_is_kept_or_truncated_at_the_start(launch):
    (launch.work / "file").write_text("before\n")
    ended(launch("batch", script="echo one", VCCTL_OUTPUT="file"))
    (launch.run / "output").unlink()
    assert (launch.work / "file").read_text() == "before\none\n"
    ended(launch("batch", script="echo two", VCCTL_OUTPUT="file", VCCTL_OPEN="truncate"))
    assert (launch.work / "file").read_text() == "two\n"


def test_a_file_that_cannot_be_written_fails_the_job(launch):
    assert ended(launch("batch", script="echo never", VCCTL_OUTPUT="no/such/folder"))[2] in {1, 2}


def test_srun_in_a_script_starts_as_many_tasks_and_fails_as_the_worst_of_them(launch):
    script = 'srun -n3 sh -c \'echo $SLURM_PROCID/$SLURM_NTASKS "$1"; exit $SLURM_PROCID\' - "it\'s"\necho ended $?'
    out, _, code = ended(launch("batch", script=script, VCCTL_NTASKS="2"))
    assert sorted(out.splitlines()) == ["0/3 it's", "1/3 it's", "2/3 it's", "ended 2"]
    assert code == 0
    out, _, _ = ended(
        launch("batch", script="srun --cpu-bind=cores -c 4 --exclusive sh -c 'echo $SLURM_PROCID'", VCCTL_NTASKS="2")
    )
    assert sorted(out.split()) == ["0", "1"]


def test_the_tasks_of_a_pod_have_consecutive_ranks_and_none_is_too_many(launch):
    environ = {"VCCTL_TASKS": "2", "VCCTL_NTASKS": "3", "VC_TASK_INDEX": "1"}
    assert ended(launch("tasks", "sh", "-c", "echo $SLURM_PROCID $SLURM_LOCALID", **environ))[0] == "2 0\n"


def test_a_signal_to_all_processes_reaches_the_script_once_and_loses_no_line(launch):
    script = "trap 'echo got' USR1\necho ready > ready\nuntil [ -e stop ]; do sleep 0.1; done\necho end"
    process = launch("batch", script=script, VCCTL_OUTPUT="file")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while not (launch.work / "ready").exists():
        time.sleep(0.02)
    for pid in [process.pid, *map(int, children.read_text().split())]:
        os.kill(pid, signal.SIGUSR1)
    time.sleep(0.3)
    (launch.work / "stop").touch()
    out, _, code = ended(process)
    assert (out, code) == ("got\nend\n", 0)
    assert (launch.work / "file").read_text() == "got\nend\n"


def test_a_place_for_a_terminal_ends_with_its_status(launch):
    keeper = launch("wait", "0")
    while not (launch.run / "keeper").exists() or not (launch.run / "keeper").read_text():
        time.sleep(0.02)
    begin = time.monotonic()
    assert ended(launch("terminal", "sh", "-c", "exit 6"))[2] == 6
    assert ended(keeper)[2] == 6
    assert time.monotonic() - begin < 4, "the keeper is woken and does not look by its period alone"


def test_a_place_that_nobody_uses_is_released_and_says_so(launch):
    out, _, code = ended(launch("wait", "5"))
    assert (out, code) == ("released: nobody has used a terminal of this Job for 5 s\n", 0)
