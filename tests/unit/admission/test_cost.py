"""No review costs more than in proportion to its object: the lines that run are counted for each list and map of each kind.

The lists are found in the schemas, so a new field is tested without anybody thinking of it. Lines are counted instead of time, so
that the test says the same on every machine. What one line does in C is not seen: slices and searches in lists are for reviewers.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from copy import deepcopy
from types import FrameType
from typing import Any

import orjson
import pytest

from pyroclast.api.crds import custom_resource_definitions
from pyroclast_admission.handlers import WEBHOOKS, Webhook, answer
from pyroclast_admission.review import decode, encode
from pyroclast_standalone.apiserver.documents import schema
from pyroclast_standalone.apiserver.documents.schema import Node
from tests.bench.admission_server import known
from tests.unit.admission.clients import review
from tests.unit.admission.test_fuzz import OBJECTS

FEW, MANY = 20, 80
MOST_GROWTH = 1.25 * MANY / FEW
"""Above 4, the growth of the number of items: what is sorted costs a little more. A square would be 16."""
STEPS_OF_LIST, STEPS_OF_MAP = "[]", "{}"
Place = tuple[str, ...]
_STATE = known()
_NUMBERS = itertools.count(1)


def _template() -> Node:
    template = schema.builtin_schema("", "v1", "PodTemplate")
    assert template is not None
    return template.fields["template"]


def node_of(plural: str) -> Node:
    """The schema of a kind of ours, with that of pods where ours says nothing."""
    definition = next(each for each in custom_resource_definitions() if each["spec"]["names"]["plural"] == plural)
    return schema.of_openapi(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def places(node: Node, path: Place, *, pods: bool, depth: int = 0) -> Iterator[tuple[Place, Node]]:
    """Every list and map below `node`, with the node of its items."""
    if depth > 12:
        return
    if node.type in ("list", "map") and node.item is not None:
        step = STEPS_OF_LIST if node.type == "list" else STEPS_OF_MAP
        yield path, node
        yield from places(node.item, (*path, step), pods=pods, depth=depth + 1)
    elif node.type == "object":
        for name, field in node.fields.items():
            if name == "template" and path and path[-1] == STEPS_OF_LIST:
                if pods:
                    yield from places(_template(), (*path, name), pods=pods, depth=depth + 1)
            else:
                yield from places(field, (*path, name), pods=pods, depth=depth + 1)


def value(node: Node | None, number: int, depth: int) -> Any:
    """A value of a node: fields are filled in, down to a depth."""
    if node is None or node.type == "any":
        return f"x{number}"
    if node.type == "scalar":
        return {"string": f"x{number}", "boolean": True, "number": number}.get(node.primitive, number + 1)
    if node.type == "list":
        return [value(node.item, number, depth - 1)] if depth > 0 else []
    if node.type == "map":
        return {f"k{number}": value(node.item, number, depth - 1)} if depth > 0 else {}
    return {name: value(field, number, depth - 1) for name, field in node.fields.items() if depth > 0 or field.type == "scalar"}


def filled(base: dict[str, Any], root: Node, path: Place, items: Any) -> dict[str, Any]:
    """A copy of `base` with `items` at `path`; the first item of each list on the way is taken, or made."""
    result = deepcopy(base)
    target: Any = result
    node: Node | None = root
    for index, step in enumerate(path):
        is_last = index == len(path) - 1
        assert node is not None
        if step in (STEPS_OF_LIST, STEPS_OF_MAP):
            node = node.item
            key: Any = 0 if step == STEPS_OF_LIST else "k"
            if step == STEPS_OF_LIST and not target:
                target.append(value(node, 0, 0))
            elif step == STEPS_OF_MAP and "k" not in target:
                target["k"] = value(node, 0, 0)
        else:
            key = step
            node = _template() if step == "template" and index and path[index - 1] == STEPS_OF_LIST else node.fields[step]
            if not is_last and not isinstance(target.get(key), dict | list):
                target[key] = [] if node.type == "list" else {}
        if is_last:
            target[key] = items
        else:
            target = target[key]
    return result


def lines_of(webhook: Webhook, operation: str, given: dict[str, Any], old: dict[str, Any]) -> int:
    """How many lines run for a review, from the decoded body to the encoded answer."""
    body = orjson.dumps(review(webhook.path, operation, object=given, oldObject=old))
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        decoded = decode(body)
        encode(decoded, answer(webhook, decoded, _STATE))
    finally:
        sys.settrace(before)
    return count


def items_of(node: Node, count: int, *, depth: int, alike: bool) -> Any:
    numbers = [0 if alike else next(_NUMBERS) for _ in range(count)]  # no name comes twice, so that no cache helps
    if node.type == "list":
        return [value(node.item, number, depth) for number in numbers]
    return {f"k{index}": value(node.item, number, depth) for index, number in enumerate(numbers)}


def kinds() -> dict[str, list[Webhook]]:
    found: dict[str, list[Webhook]] = {}
    for webhook in WEBHOOKS:
        if not webhook.is_advice and webhook.resource.group.endswith("volcano.sh"):
            found.setdefault(webhook.resource.plural, []).append(webhook)
    return found


@pytest.mark.parametrize(("plural", "webhooks"), kinds().items())
def test_cost_of_a_review_is_in_proportion_to_the_items_of_each_list(plural: str, webhooks: list[Webhook]) -> None:
    root, base = node_of(plural), OBJECTS[plural]
    found = [each for each in places(root, (), pods=plural == "jobs") if each[0][0] != "status"]
    assert found
    wrong = []
    for path, node in found:
        for depth, alike in ((0, False), (2, False), (0, True)):
            few, many = (filled(base, root, path, items_of(node, count, depth=depth, alike=alike)) for count in (FEW, MANY))
            for webhook in webhooks:
                for operation in webhook.operations[:2]:
                    costs = [lines_of(webhook, operation, given, base) for given in (few, many)]
                    if costs[1] > MOST_GROWTH * costs[0]:
                        wrong.append(
                            f"{webhook.path} {operation} {'.'.join(path)}: {costs[0]} lines for {FEW}, {costs[1]} for {MANY}"
                        )
    assert wrong == []
