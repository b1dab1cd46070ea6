"""The runner in a pod whose image has Python and nothing else."""

from __future__ import annotations

import base64
import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pyroclast.api.types import Key
from pyroclast_client import errors, payload
from pyroclast_client.compilation import Surroundings, compiled
from pyroclast_client.options import options_of
from pyroclast_client.orphans import PendingSecrets, orphans
from pyroclast_client.payload import Arguments, FlowPart, claim_of, packed, runner_archive, secret_data, shared_modules
from pyroclast_client.runner import sealing

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


@pytest.mark.parametrize(
    ("store", "claim"),
    [(None, ""), ("file:///a", ""), ("s3://b/c", ""), ("pvc://scratch", "scratch"), ("pvc://a.b-1/deep/folder", "a.b-1")],
)
def test_claim_name_is_read_from_a_pvc_store_url(store, claim):
    assert claim_of(store) == claim


@pytest.mark.parametrize("store", ["pvc://", "pvc:///folder", "pvc://Big/x", "pvc://a/../b", "pvc://a/b/.."])
def test_pvc_store_url_without_a_valid_claim_is_refused(store):
    with pytest.raises(errors.Usage, match="pvc://CLAIM/folder"):
        claim_of(store)


def test_pod_mounts_the_store_claim_and_receives_its_mount_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    around = Surroundings("default", image="py", store="pvc://scratch/results")
    made = compiled(lambda: 1, [Arguments()], options_of({}), around, name="f")
    pod = made.job["spec"]["tasks"][0]["template"]["spec"]
    container = pod["containers"][0]
    assert {"name": "store", "persistentVolumeClaim": {"claimName": "scratch"}} in pod["volumes"]
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == "store"]
    assert {"name": sealing.CLAIMS, "value": f"scratch={mount['mountPath']}"} in container["env"]


def test_large_payload_is_refused_when_the_store_claim_is_not_mounted_locally(tmp_path, monkeypatch):
    large = {"payload": os.urandom(800 << 10)}
    with pytest.raises(errors.Usage, match=r"claim scratch is not mounted here.*PYROCLAST_CLAIMS"):
        secret_data(large, "pvc://scratch/results")
    monkeypatch.setenv(sealing.CLAIMS, f"scratch={tmp_path}")
    data = secret_data(large, "pvc://scratch/results")
    assert b"pvc://scratch/results" in base64.b64decode(data["payload.json"])
    (written,) = (tmp_path / "results" / "code").iterdir()
    assert written.read_bytes() == large["payload"]


def test_store_file_appears_only_after_it_is_completely_written(tmp_path, monkeypatch):
    monkeypatch.setenv(sealing.CLAIMS, f"scratch={tmp_path}")
    seen = []
    replace = type(tmp_path).replace

    def looking(path, target):
        seen.append((path.name != target.name, target.exists(), path.read_bytes()))
        return replace(path, target)

    monkeypatch.setattr(type(tmp_path), "replace", looking)
    sealing.put("pvc://scratch/a", "name", b"whole")
    assert seen == [(True, False, b"whole")]
    assert sealing.got("pvc://scratch/a", "name") == b"whole"


ONE, TWO, OTHER = Key("team", "a-code"), Key("team", "b-code"), Key("team-b", "a-code")


def test_pending_secret_is_kept_per_server_and_namespace_until_forgotten(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for each in (TWO, ONE, OTHER):
        PendingSecrets("https://one").note(each)
    again = PendingSecrets("https://one")
    assert again.of("team") == [ONE, TWO]
    assert again.of("team-b") == [OTHER]
    assert PendingSecrets("https://two").of("team") == []
    again.forget(ONE)
    again.forget(ONE)
    assert again.of("team") == [TWO]


def test_pending_secrets_are_empty_when_the_state_directory_is_not_writable(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    pending = PendingSecrets("https://one")
    pending.note(ONE)
    pending.forget(ONE)
    assert pending.of("team") == []


NOW = 1_800_000_000.0


def secret(name, created, *owners):
    return {"metadata": {"name": name, "creationTimestamp": created, "ownerReferences": list(owners)}}


def test_only_old_secrets_without_an_owner_are_orphans():
    found = orphans(
        [
            secret("old", "2027-01-15T06:00:00Z"),
            secret("young", "2027-01-15T07:30:00Z"),
            secret("owned", "2027-01-15T06:00:00Z", {"uid": "u"}),
        ],
        NOW,
    )
    assert [each["name"] for each in found] == ["old"]


def test_pods_install_locked_packages_once_and_find_included_files(tmp_path, monkeypatch):
    wheel = tmp_path / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny.py", "VALUE = 41")
        archive.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        archive.writestr(
            "tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("tiny-1.0.dist-info/RECORD", "tiny.py,,\ntiny-1.0.dist-info/METADATA,,\ntiny-1.0.dist-info/WHEEL,,\n")
    project, pod = tmp_path / "project", tmp_path / "pod"
    project.mkdir()
    pod.mkdir()
    (project / "requirements.lock").write_text(f"tiny @ {wheel.as_uri()}\n")
    (project / "data.txt").write_text("one more: ")
    monkeypatch.setenv("PYROCLAST_PACKAGES", str(tmp_path / "packages"))

    def show():
        import tiny

        print(Path("data.txt").read_text(), tiny.VALUE + 1)

    options = options_of({"packages": "lock", "include": ["data.txt"], "root": str(project)})
    data = compiled(show, [Arguments()], options, Surroundings("default", image="py"), name="f").secret["data"]
    for _ in range(2):
        done = run(pod, data)
        assert done.stdout == "one more:  42\n", done.stderr
        wheel.unlink(missing_ok=True)  # the second pod installs nothing
    with pytest.raises(errors.Usage, match=r"no missing\.txt in"):
        compiled(show, [Arguments()], options.changed({"packages": "missing.txt"}), Surroundings("default", image="py"), name="f")
