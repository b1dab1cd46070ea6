"""The kubeconfig of the administrator."""

import json

from pyroclast.kube.credentials.config import load_config


async def test_kubeconfig_context_names_the_default_namespace(server):
    document = json.loads(server.kubeconfig.read_text())
    (context,) = [each["context"] for each in document["contexts"] if each["name"] == document["current-context"]]
    assert context["namespace"] == "default"
    assert load_config(str(server.kubeconfig)).namespace == "default"
