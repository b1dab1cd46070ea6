import base64
import subprocess
from shutil import which

import pytest
from cryptography.hazmat.primitives import serialization

from pyroclast.lifecycle.plugins.ssh import SshPlugin
from tests.unit.lifecycle.builders import job, task, template

from .helpers import pod_of, with_init

OWNER = job(task("a", 2, template=with_init()), task("b", 3, template=template(hostname="h", subdomain="s")))


def secret(*arguments, owner=OWNER):
    (made,) = SshPlugin(arguments).objects(owner)
    return made


def decoded(data):
    return {name: base64.b64decode(value).decode() for name, value in data.items()}


def test_ssh_config_lists_every_host_once():
    made = secret()
    assert (made.kind.kind, made.name, made.follows) == ("Secret", "j-ssh", (("data", "config"),))
    assert decoded(made.body["data"]) == {
        "config": "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
        "Host j-a-0\n  HostName j-a-0.j\n  Port 22\n"
        "Host j-a-1\n  HostName j-a-1.j\n  Port 22\n"
        "Host h\n  HostName h.s\n  Port 22\n"
    }


@pytest.mark.parametrize(
    ("argument", "want"), [("2026", 2026), ("-10", 22), ("0", 22), ("65535", 65535), ("65536", 22), ("many", 22)]
)
def test_invalid_ssh_port_defaults_to_22(argument, want):
    config = decoded(secret(f"--ssh-port={argument}").body["data"])["config"]
    assert f"  Port {want}\n" in config


def test_ssh_keys_are_generated_anew_in_the_formats_of_openssh():
    make = secret().once
    one, other = decoded(make()["data"]), decoded(make()["data"])
    assert set(one) == {"id_rsa", "id_rsa.pub", "authorized_keys"}
    assert one["id_rsa"] != other["id_rsa"]
    assert one["id_rsa.pub"] == one["authorized_keys"]
    assert one["id_rsa"].startswith("-----BEGIN RSA PRIVATE KEY-----\n")
    key = serialization.load_pem_private_key(one["id_rsa"].encode(), None)
    assert key.key_size == 2048
    ours = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
    assert one["id_rsa.pub"] == ours + "\n"


@pytest.mark.skipif(which("ssh-keygen") is None, reason="ssh-keygen is not installed")
def test_ssh_keygen_derives_the_public_key_from_the_private_key(tmp_path):
    keys = decoded(secret().once()["data"])
    file = tmp_path / "id_rsa"
    file.write_text(keys["id_rsa"])
    file.chmod(0o600)
    told = subprocess.run(["ssh-keygen", "-y", "-f", str(file)], capture_output=True, text=True, check=True)
    assert told.stdout.split()[:2] == keys["id_rsa.pub"].split()


def test_ssh_keys_given_as_flags_are_used_unchanged():
    made = secret("--ssh-private-key=mine", "--ssh-public-key=also mine")
    data = decoded(made.body["data"])
    assert made.once is None
    assert (data["id_rsa"], data["id_rsa.pub"], data["authorized_keys"]) == ("mine", "also mine", "also mine")
    assert secret("--ssh-public-key=alone").once is not None


def test_private_key_flag_alone_leaves_the_public_key_empty():
    data = decoded(secret("--ssh-private-key=mine").body["data"])
    assert (data["id_rsa"], data["id_rsa.pub"], data["authorized_keys"]) == ("mine", "", "")


def test_private_key_does_not_appear_in_the_repr_of_the_secret():
    made = secret("--ssh-private-key=mine")
    assert base64.b64encode(b"mine").decode() not in repr(made)


@pytest.mark.parametrize(
    ("arguments", "path", "mode"),
    [([], "/root/.ssh", 0o600), (["--no-root"], "/root/.ssh", 0o600), (["--ssh-key-file-path=/a/b"], "/a/b", 0o644)],
)
def test_ssh_secret_is_mounted_in_all_containers_at_the_key_file_path(arguments, path, mode):
    spec = pod_of(SshPlugin(arguments), OWNER)["spec"]
    items = [{"key": key, "path": f".ssh/{key}"} for key in ("id_rsa", "id_rsa.pub", "authorized_keys", "config")]
    assert spec["volumes"] == [{"name": "j-ssh", "secret": {"secretName": "j-ssh", "items": items, "defaultMode": mode}}]
    for container in (*spec["containers"], *spec["initContainers"]):
        assert container["volumeMounts"] == [{"name": "j-ssh", "mountPath": path, "subPath": ".ssh"}]


LARGE = job(
    task("a", 20_000),
    task("a-b", 20_000, template=template(subdomain="s")),
    task("c", 1, template=template(hostname="h")),
)


def test_ssh_config_of_a_very_large_job_is_short():
    assert len(decoded(secret("--ssh-port=2222", owner=LARGE).body["data"])["config"]) < 1000


@pytest.mark.skipif(which("ssh") is None, reason="ssh is not installed")
@pytest.mark.parametrize("host", ["j-a-1", "j-a-1.j", "h.s", "j-a-1.j.default.svc.cluster.local"])
def test_ssh_port_is_that_of_a_host_however_it_is_named(tmp_path, host):
    file = tmp_path / "config"
    file.write_text(decoded(secret("--ssh-port=2222").body["data"])["config"])
    told = subprocess.run(["ssh", "-G", "-F", str(file), host], capture_output=True, text=True, check=True).stdout
    assert "port 2222\n" in told


@pytest.mark.skipif(which("ssh") is None, reason="ssh is not installed")
def test_short_ssh_config_of_a_very_large_job_resolves_every_host(tmp_path):
    config = decoded(secret("--ssh-port=2222", owner=LARGE).body["data"])["config"]
    file = tmp_path / "config"
    file.write_text(config)
    for host, want in (("j-a-7", "j-a-7.j"), ("j-a-b-19999", "j-a-b-19999.s"), ("h", "h.j"), ("j-a-7.j", "j-a-7.j")):
        told = subprocess.run(["ssh", "-G", "-F", str(file), host], capture_output=True, text=True, check=True).stdout
        assert f"hostname {want}\n" in told
        assert "port 2222\n" in told


def test_ssh_config_of_ten_thousand_pods_fits_into_a_secret():
    data = secret(owner=job(task("worker-of-a-name", 10_000))).body["data"]["config"]
    assert len(base64.b64decode(data)) <= 1_000_000
