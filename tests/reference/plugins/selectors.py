"""What labels, taints and affinity of pods and nodes mean; shared by filters and scores."""

from tests.reference.model import RELEASING


def matches(wanted, labels) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())


def matches_expression(each, labels) -> bool:
    value = labels.get(each["key"])
    match each["op"]:
        case "In":
            return value in each["values"]
        case "NotIn":
            return value not in each["values"]
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and value.isdigit() and int(value) > int(each["values"][0])
        case "Lt":
            return value is not None and value.isdigit() and int(value) < int(each["values"][0])
    raise ValueError(each["op"])


def wants(task, node) -> bool:
    """Node selector, and one of the required terms."""
    if not matches(task.options.get("sel", {}), node.labels):
        return False
    terms = task.options.get("requireNode")
    return terms is None or any(matches_expression(term, node.labels) for term in terms)


def tolerates(task, taint) -> bool:
    text = task.options.get("tolerate")
    if text is None:
        return False
    body, _, effect = text.rpartition(":")
    key, _, value = body.partition("=")
    found = {"effect": effect, "key": key, "value": value}
    return all(not wanted or wanted == taint[name] for name, wanted in found.items())


def term_of(given):
    """(topology key, labels)."""
    return given["key"], {key: value for key, value in given.items() if key not in {"key", "weight"}}


def present(session, node, *, going=True):
    """The pods that filters see on a node: none that this session evicted; `going`: also those that were leaving before."""
    found = []
    for task in session.on(node):
        if task.status == RELEASING and not (going and task.options.get("releasing")):
            continue
        found.append(task)
    return found
