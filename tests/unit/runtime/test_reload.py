"""The program that runs another anew when its files change, as `skaffold dev` lets it."""

import os
import signal
import subprocess
import sys

import pytest

GOOD = "import time\nprint('VERSION', flush=True)\ntime.sleep(600)\n"


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "watched"
    folder.mkdir()
    (folder / "__init__.py").touch()
    return folder


@pytest.fixture
def reloader(package, tmp_path):
    def start(text):
        (package / "__main__.py").write_text(text)
        return subprocess.Popen(
            [sys.executable, "-m", "pyroclast.runtime.reload", "watched", "one", "two"],
            env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def test_a_changed_file_starts_the_program_anew_and_a_signal_ends_both(package, reloader):
    with reloader(GOOD.replace("VERSION", "first")) as process:
        assert process.stdout.readline() == "first\n"
        (package / "__main__.py").write_text(GOOD.replace("VERSION", "second"))
        assert process.stdout.readline() == "second\n"
        assert process.stderr.readline() == "files changed: watched starts anew\n"
        process.terminate()
        assert process.wait(30) == 128 + signal.SIGTERM
        assert process.stdout.read() == ""


def test_a_new_file_restarts_the_program(package, reloader):
    with reloader(
        "import os, time\nprint(sorted(os.listdir(os.path.dirname(__file__))), flush=True)\ntime.sleep(600)\n"
    ) as process:
        assert process.stdout.readline() == "['__init__.py', '__main__.py']\n"
        (package / "more.py").touch()
        assert process.stdout.readline() == "['__init__.py', '__main__.py', 'more.py']\n"
        process.terminate()


def test_a_program_that_fails_waits_for_its_next_version(package, reloader):
    with reloader("an error\n") as process:
        while not (line := process.stderr.readline()).startswith("exit code"):
            assert line
        assert line == "exit code 1: waits for a change\n"
        (package / "__main__.py").write_text(GOOD.replace("VERSION", "mended"))
        assert process.stdout.readline() == "mended\n"
        process.terminate()


def test_a_program_receives_its_arguments_and_its_exit_ends_the_reloader(reloader):
    with reloader("import sys\nprint(sys.argv[1:])\n") as process:
        assert process.stdout.read() == "['one', 'two']\n"
        assert process.wait(30) == 0
