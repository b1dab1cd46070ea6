"""Stores in claims: what their URLs may be, and what pods get of them."""

import base64
import os

import pytest

from pyroclast_client import errors
from pyroclast_client.compilation import Surroundings, compiled
from pyroclast_client.options import options_of
from pyroclast_client.payload import Arguments, claim_of, secret_data
from pyroclast_client.runner import sealing


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
