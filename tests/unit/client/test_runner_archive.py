"""The runner in a pod whose image has Python and nothing else."""

import base64
import io
import json
import os
import subprocess
import sys
import zipfile

import pytest

from pyroclast_client import payload
from pyroclast_client.payload import Arguments, FlowPart, packed, runner_archive, secret_data, shared_modules

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


def run(tmp_path, data):
    """Run the function of a Secret as its pod does. `done.stdout` is what the function printed."""
    for name, content in data.items():
        (tmp_path / name).write_bytes(base64.b64decode(content))
    environment = {**os.environ, "PYROCLAST_TERMINATION_LOG": str(tmp_path / "message")}
    command = [sys.executable, str(tmp_path / "runner.pyz")]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(payload, "MOST_BYTES", 10)
    return f"file://{tmp_path}/store"


def sent(store, word, **more):
    return packed(print, [Arguments((word,))], name="print", job="j", store=store, **more).data


def modules(word):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(f"{word}.py", "")
    return shared_modules(buffer.getvalue())


@pytest.mark.parametrize("part", ["payload", "modules"])
def test_code_in_a_store_that_somebody_replaced_is_not_run(store, part, tmp_path):
    key, archive = modules("mine")
    flow = FlowPart("e", is_loop=False, reference=lambda _: None, modules=key)
    data = secret_data({"payload": sent(store, "mine", flow=flow), key: archive}, store)
    assert run(tmp_path, data).stdout == "mine\n"
    label, forged = ("payload", sent(store, "forged")) if part == "payload" else (key, modules("forged")[1])
    (tmp_path / "store" / json.loads(base64.b64decode(data[f"{label}.json"]))["name"]).write_bytes(forged)
    done = run(tmp_path, data)
    assert done.returncode != 0
    assert done.stdout == ""
    assert "is not what was sent" in done.stderr


def test_submission_replaces_forged_code_in_the_store(store, tmp_path):
    code = {"payload": sent(store, "mine")}
    data = secret_data(code, store)
    for forged in (tmp_path / "store" / "code").iterdir():
        forged.write_bytes(sent(store, "forged"))
    assert secret_data(code, store, b"key")["payload.json"] == data["payload.json"]
    assert run(tmp_path, data).stdout == "mine\n"
