"""A service that takes part in decisions, as a table says; verbs that are absent are not answered.

extender: {refuse: {node: code}, scores: {node: score}, stay: [pods], overused: [queues], votes: {PodGroup: vote},
unready: [PodGroups], objects: [pods], absent: [verbs]}; `objects`: it will not have them placed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


class Told:
    """The port of an extender."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.table = table

    def post(self, url: str, body: bytes, *, timeout: float) -> bytes:
        """The answer to a verb, the last part of `url`."""
        del timeout
        verb, table, given = url.rpartition("/")[2], self.table, json.loads(body)
        if verb in table["absent"]:
            raise ConnectionError(f"{url}: nobody is there")
        match verb:
            case "predicate":
                code = table["refuse"].get(given["node"]["Name"], 0)
                answer: dict[str, Any] = {"status": "not here" if code else "", "code": code}
            case "prioritize":
                answer = {"nodeScore": {node["Name"]: table["scores"].get(node["Name"], 0) for node in given["nodes"]}}
            case "victims":
                answer = {"status": 1, "victims": [each for each in given["evictees"] if each["Name"] not in table["stay"]]}
            case "overused":
                answer = {"overused": given["queue"]["Name"] in table["overused"]}
            case "enqueueable":
                answer = {"status": table["votes"].get(given["job"]["Name"], 0)}
            case "allocate":
                answer = {"errorMessage": "no" if given["task"]["Name"] in table.get("objects", []) else ""}
            case _:
                answer = {"status": given["job"]["Name"] not in table["unready"]}
        return json.dumps(answer).encode()
