"""The kubeconfig of the administrator."""

import json

from pyroclast.kube.credentials.config import load_config


async def test_its_context_names_a_namespace_as_clients_exist_that_read_it_unasked(server):
    document = json.loads(server.kubeconfig.read_text())
    (context,) = [each["context"] for each in document["contexts"] if each["name"] == document["current-context"]]
    assert context["namespace"] == "default"
    assert load_config(str(server.kubeconfig)).namespace == "default"
