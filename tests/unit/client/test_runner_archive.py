"""The runner in a pod whose image has Python and nothing else."""

import subprocess
import sys

import pytest

from pyroclast_client.payload import runner_archive

PROGRAM = """
import sys
sys.path.append(sys.argv[1] + "/standin")
import {name} as pc
print(pc.task(image="python")(abs)(-3), pc.rank(), pc.world())
"""


@pytest.mark.parametrize("name", ["pyroclast.client", "pyroclast_client"])
def test_modules_of_users_import_the_client_in_an_image_without_it(name, tmp_path):
    archive = tmp_path / "runner.pyz"
    archive.write_bytes(runner_archive())
    command = [sys.executable, "-I", "-S", "-c", PROGRAM.format(name=name), str(archive)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "3 0 1\n", done.stderr
