"""`python -m tests.unit.apiserver_documents.record KUBECONFIG` records again what a real server answers to every recorded row.

Everything is sent as a dry run, except a namespace and the definition of widgets, which are deleted again. A line with `path` and
`sent` (widgets: `sent`) in a file of `recorded` is a new case. The files that the kubeconfig names stand beside it, as
`python -m tests.control_plane up` makes them.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from tests.unit.apiserver_documents.conftest import RECORDED, WIDGETS, recorded

NAMESPACE = "/api/v1/namespaces/recorded"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
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


def created(server: Server, row: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the rows of an accepted object for `created` and `protobuf`."""
    query, sent = f"{row['path']}?dryRun=All&fieldManager=m", row["sent"]
    status, made, _ = server.ask("POST", query, sent)
    assert status == 201, (row["path"], made)
    table = server.ask("POST", query, sent, accept=TABLE)[1]
    for column in table["columnDefinitions"]:
        del column["description"]
    for line in table["rows"]:
        del line["object"]
    content = server.raw("POST", query, sent, accept=PROTOBUF)[1]
    row = {"path": row["path"], "sent": sent, "made": made, "table": table}
    return row, {"body": base64.b64encode(content).decode(), "json": made}


def main() -> int:
    server = Server(sys.argv[1])
    server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "recorded"}})
    server.ask("POST", f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})
    server.ask("POST", DEFINITIONS, WIDGETS)
    time.sleep(3)  # until the definition is established
    pairs = [created(server, row) for row in recorded("created")]
    rows = {
        "created": [row for row, _ in pairs],
        "protobuf": [row for _, row in pairs],
        "refused": [],
        "kinds": [],
        "widgets": [],
    }
    for row in recorded("refused"):
        status, body, warnings = server.ask("POST", f"{row['path']}?dryRun=All", row["sent"])
        answer = body if status >= 400 else None
        rows["refused"].append(row | {"code": status, "answer": answer, "warnings": warnings})
    for row in recorded("kinds"):
        status, body, warnings = server.ask("POST", f"{row['path']}?dryRun=All", row["sent"])
        causes = body["details"]["causes"] if status == 422 else []
        texts = sorted(warning.partition(" - ")[2] for warning in warnings)
        rows["kinds"].append(row | {"code": status, "causes": causes, "warnings": texts})
    widgets = "/apis/recorded.example.org/v1/namespaces/recorded/ws?dryRun=All&fieldManager=m"
    for row in recorded("widgets"):
        status, body, warnings = server.ask("POST", widgets, row["sent"])
        rows["widgets"].append(row | {"code": status, "answer": body, "warnings": warnings})
    server.ask("DELETE", f"{DEFINITIONS}/{WIDGETS['metadata']['name']}")
    server.ask("DELETE", NAMESPACE)
    for name, content in rows.items():
        (RECORDED / f"{name}.jsonl").write_text("".join(json.dumps(entry, separators=(",", ":")) + "\n" for entry in content))
    return 0


if __name__ == "__main__":
    sys.exit(main())
