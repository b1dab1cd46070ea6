"""Rules of HyperNode: it has members, and their patterns are valid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pyroclast.rules.errors import FieldError, invalid
from pyroclast.rules.regexes import RegexError, check_regex
from pyroclast.rules.values import Json, mapping, mappings, text
from pyroclast.rules.verdicts import Verdict, field_verdict


def validate(hyper_node: Mapping[str, Any]) -> Verdict:
    """Return the verdict on a new or changed HyperNode. Only its message has the paths in Volcano's form."""
    spec = mapping(hyper_node.get("spec"))
    members = spec.get("members")
    if not members:
        error = invalid("spec.members", members, "member must have at least one member")
        return Verdict(field_verdict([error.under("[]")]).message, (error,))
    errors = list(_check_patterns(members))
    said = "[].spec.members.selector.regexMatch.pattern"
    return Verdict(field_verdict([replace(error, path=said) for error in errors]).message, tuple(errors))


def _check_patterns(members: Json) -> Iterator[FieldError]:
    for index, member in mappings(members):
        pattern = text(mapping(mapping(member.get("selector")).get("regexMatch")).get("pattern"))
        if not pattern:
            continue
        try:
            check_regex(pattern)
        except RegexError as error:
            path = f"spec.members[{index}].selector.regexMatch.pattern"
            yield invalid(path, pattern, f"member regexMatch pattern is invalid: error parsing regexp: {error}")
