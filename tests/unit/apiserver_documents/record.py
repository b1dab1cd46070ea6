"""`python -m tests.unit.apiserver_documents.record KUBECONFIG`: what a real server makes of the cases, written down.

Everything is sent as a dry run, but a namespace and the definition of widgets, which are taken away again. What
`kinds.jsonl` says was sent is sent again: a row with `path` and `sent` is all that a new case needs. Needs a kubeconfig whose
files stand beside it, as `python -m tests.control_plane up` makes one.
"""

from __future__ import annotations

import base64
import copy
import http.client
import json
import ssl
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from tests.unit.apiserver_documents import cases

RECORDED = Path(__file__).parent / "recorded"
PROTOBUF = "application/vnd.kubernetes.protobuf"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class Server:
    def __init__(self, kubeconfig: str) -> None:
        config = yaml.safe_load(Path(kubeconfig).read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        folder = Path(kubeconfig).parent
        self.context = ssl.create_default_context(cafile=str(folder / cluster["certificate-authority"]))
        self.context.load_cert_chain(folder / user["client-certificate"], folder / user["client-key"])
        self.address = urlsplit(cluster["server"])

    def raw(self, method: str, path: str, body: Any = None, *, accept: str = "application/json") -> tuple[int, bytes, list[str]]:
        connection = http.client.HTTPSConnection(self.address.hostname or "", self.address.port, context=self.context)
        headers = {"Accept": accept, "Content-Type": "application/json", "User-Agent": "recorder"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers.get_all("Warning") or []

    def ask(self, method: str, path: str, body: Any = None, **more: str) -> tuple[int, Any, list[str]]:
        status, content, warnings = self.raw(method, path, body, **more)
        return status, json.loads(content), warnings


def group_version(path: str) -> tuple[str, str]:
    parts = path.split("/")
    return (parts[2], parts[3]) if parts[1] == "apis" else ("", parts[2])


def complete(path: str, document: dict[str, Any], index: int) -> dict[str, Any]:
    group, version = group_version(path)
    result = copy.deepcopy(document)
    result.setdefault("apiVersion", f"{group}/{version}" if group else version)
    result.setdefault("metadata", {}).setdefault("name", f"x{index}")
    return result


def main() -> int:
    server = Server(sys.argv[1])
    server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "recorded"}})
    server.ask("POST", f"{cases.NS}/serviceaccounts", {"metadata": {"name": "default"}})
    created, refused, protobuf = [], [], []
    for index, (path, document) in enumerate(cases.CREATED):
        sent = complete(path, document, index)
        query = f"{path}?dryRun=All&fieldManager=m"
        status, body, _ = server.ask("POST", query, sent)
        assert status == 201, (path, body)
        table = server.ask("POST", query, sent, accept=TABLE)[1]
        for column in table["columnDefinitions"]:
            del column["description"]
        for row in table["rows"]:
            del row["object"]
        created.append({"path": path, "sent": sent, "made": body, "table": table})
        content = server.raw("POST", query, sent, accept=PROTOBUF)[1]
        protobuf.append({"body": base64.b64encode(content).decode(), "json": body})
    for path, document in cases.REFUSED:
        status, body, warnings = server.ask("POST", f"{path}?dryRun=All", document)
        refused.append(
            {"path": path, "sent": document, "code": status, "answer": body if status >= 400 else None, "warnings": warnings}
        )
    told = []
    for row in map(json.loads, (RECORDED / "kinds.jsonl").read_text().splitlines()):
        status, body, warnings = server.ask("POST", f"{row['path']}?dryRun=All", row["sent"])
        causes = body["details"]["causes"] if status == 422 else []
        texts = sorted(warning.partition(" - ")[2] for warning in warnings)
        told.append({"path": row["path"], "sent": row["sent"], "code": status, "causes": causes, "warnings": texts})
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    server.ask("POST", definitions, cases.WIDGETS)
    time.sleep(3)
    widgets = []
    for given in cases.WIDGET_SPECS:
        document = cases.widget(**copy.deepcopy(given))
        status, body, warnings = server.ask(
            "POST", "/apis/recorded.example.org/v1/namespaces/recorded/ws?dryRun=All&fieldManager=m", document
        )
        widgets.append({"sent": document, "code": status, "answer": body, "warnings": warnings})
    server.ask("DELETE", f"{definitions}/{cases.WIDGETS['metadata']['name']}")
    server.ask("DELETE", "/api/v1/namespaces/recorded")
    recorded = {"created": created, "refused": refused, "kinds": told, "widgets": widgets, "protobuf": protobuf}
    for name, content in recorded.items():
        (RECORDED / f"{name}.jsonl").write_text("".join(json.dumps(entry, separators=(",", ":")) + "\n" for entry in content))
    return 0


if __name__ == "__main__":
    sys.exit(main())
