"""Runs the container of a pod spec as a process in the root that its image has, with all that the spec gives it."""

from __future__ import annotations

import base64
import json
import re
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.unit.chart.fresh_root import Builder

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"

Kubectl = Callable[..., str]


@dataclass(frozen=True, slots=True)
class Container:
    """One that runs, and how it is asked whether it is well."""

    process: subprocess.Popen[bytes]
    spec: Mapping[str, Any]
    address: str
    log: Path

    def passes(self, probe: str) -> bool:
        """Whether its own probe of that name says yes now."""
        get = self.spec[probe]["httpGet"]
        port = next((each["containerPort"] for each in self.spec["ports"] if each["name"] == get["port"]), get["port"])
        try:
            scheme = get.get("scheme", "HTTP").lower()  # kubelets do not look at the certificate
            url = f"{scheme}://{self.address}:{port}{get['path']}"
            with urllib.request.urlopen(url, timeout=5, context=ssl._create_unverified_context()) as answer:
                return bool(200 <= answer.status < 400)
        except (urllib.error.URLError, OSError):
            return False


def start(builder: Builder, target: str, template: Mapping[str, Any], folder: Path, address: str, kubectl: Kubectl) -> Container:
    """Start the one container of a pod template from the image `target`; what is mounted is written to `folder`."""
    pod = template["spec"]
    (container,) = pod["containers"]
    namespace = "pyroclast-system"
    fields = {"metadata.namespace": namespace, "status.podIP": address}
    server = urlsplit(json.loads(kubectl("config", "view", "--raw", "-o", "json"))["clusters"][0]["cluster"]["server"])
    environment = {"KUBERNETES_SERVICE_HOST": str(server.hostname), "KUBERNETES_SERVICE_PORT": str(server.port)}
    for each in container["env"]:
        environment[each["name"]] = each["value"] if "value" in each else fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
    arguments = [
        re.sub(r"\$\((\w+)\)", lambda found: environment[found[1]], each) for each in [*container["command"], *container["args"]]
    ]
    account = {
        "token": kubectl("create", "token", pod["serviceAccountName"], "-n", namespace).encode(),
        "ca.crt": _authority(kubectl),
        "namespace": namespace.encode(),
    }
    sources: dict[str, Path | None] = {}
    for volume in pod["volumes"]:
        place = folder / volume["name"]
        if "emptyDir" in volume:
            sources[volume["name"]] = None
            continue
        sources[volume["name"]] = place
        if "projected" in volume:
            (token,) = [each["serviceAccountToken"] for each in volume["projected"]["sources"]]
            made = kubectl("create", "token", pod["serviceAccountName"], "-n", namespace, "--audience", token["audience"])
            kubelet_files(place, {token["path"]: made.encode()})
            continue
        is_secret = "secret" in volume
        kind, name = ("secret", volume["secret"]["secretName"]) if is_secret else ("configmap", volume["configMap"]["name"])
        data = json.loads(kubectl("get", kind, name, "-n", namespace, "-o", "json"))["data"]
        read = base64.b64decode if is_secret else str.encode
        kubelet_files(place, {key: read(text) for key, text in data.items()})
    kubelet_files(folder / "account", account)
    mounts = {ACCOUNT: folder / "account", **{each["mountPath"]: sources[each["name"]] for each in container["volumeMounts"]}}
    built = builder.build(target)
    assert built.user == pod["securityContext"]["runAsUser"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    log = folder / "log"
    command = builder.command(built, arguments, mounts, environment=environment)
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    return Container(process, container, address, log)


def kubelet_files(place: Path, files: Mapping[str, bytes]) -> None:
    """Write `files` as a kubelet does: all change at one moment, when the link to their folder does."""
    version = len(list(place.glob("..[0-9]*"))) if place.is_dir() else 0
    folder = place / f"..{version}"
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
        link = place / name
        if not link.is_symlink():
            link.symlink_to(Path("..data") / name)
    (place / "..data_tmp").symlink_to(folder.name)
    (place / "..data_tmp").rename(place / "..data")


def _authority(kubectl: Kubectl) -> bytes:
    cluster = json.loads(kubectl("config", "view", "--raw", "-o", "json"))["clusters"][0]["cluster"]
    if "certificate-authority-data" in cluster:
        return base64.b64decode(cluster["certificate-authority-data"])
    return Path(cluster["certificate-authority"]).read_bytes()
