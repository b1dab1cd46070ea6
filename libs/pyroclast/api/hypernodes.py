"""HyperNode: a part of the network, made of nodes or of smaller parts."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, MinLen
from pydantic import ConfigDict, StringConstraints

from pyroclast.api import types
from pyroclast.api.enums import MemberType
from pyroclast.api.kinds import Column, CustomKind
from pyroclast.api.shared import Condition
from pyroclast.api.wire import DNS_SUBDOMAIN, ApiObject, Extra, LabelSelector, Name, WireModel

__all__ = ["KIND", "ExactMatch", "HyperNode", "HyperNodeSpec", "HyperNodeStatus", "Member", "RegexMatch", "Selector"]


class ExactMatch(WireModel):
    """Selects the member of one name."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=DNS_SUBDOMAIN)]
    """The name."""


class RegexMatch(WireModel):
    """Selects the members whose name matches a pattern."""

    pattern: Annotated[str, MinLen(1)]
    """The pattern, in the syntax of RE2."""


class Selector(WireModel):
    """Selects members in exactly one way."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                {
                    "rule": "has(self.exactMatch) || has(self.regexMatch) || has(self.labelMatch)",
                    "message": "Either ExactMatch or RegexMatch or LabelMatch must be specified",
                },
                {
                    "rule": "!(has(self.exactMatch) && has(self.regexMatch)) && !(has(self.exactMatch) && has(self.labelMatch))"
                    " && !(has(self.regexMatch) && has(self.labelMatch))",
                    "message": "Only one of ExactMatch, RegexMatch, or LabelMatch can be specified",
                },
            ]
        }
    )

    exact_match: ExactMatch | None = None
    """By name."""
    regex_match: RegexMatch | None = None
    """By a pattern of the name."""
    label_match: LabelSelector | None = None
    """By labels; for nodes only."""


class Member(WireModel):
    """Nodes or HyperNodes below this one."""

    type: MemberType
    """What the members are."""
    selector: Selector | None = None
    """Which they are."""


class HyperNodeSpec(WireModel):
    """Where a HyperNode stands."""

    tier: Annotated[int, Ge(0)]
    """Its tier: the lower, the closer are the nodes below it."""
    tier_name: Name | None = None
    """The tier by name."""
    members: Annotated[list[Member], MinLen(1)] | None = None
    """What is below it."""


class HyperNodeStatus(WireModel):
    """What a HyperNode is."""

    conditions: list[Condition] | None = None
    """What holds for it."""
    node_count: Annotated[int, Ge(0), Extra({"format": "int64"})] | None = None
    """Number of nodes below it."""


class HyperNode(ApiObject):
    """A HyperNode is a part of the network: nodes, or smaller parts, that are close to each other."""

    spec: HyperNodeSpec | None = None
    """Where it stands."""
    status: HyperNodeStatus | None = None
    """What it is."""


KIND = CustomKind(
    types.HYPER_NODES,
    HyperNode,
    ("hn",),
    (
        Column("Tier", "string", ".spec.tier"),
        Column("TierName", "string", ".spec.tierName"),
        Column("NodeCount", "integer", ".status.nodeCount"),
        Column("Age", "date", ".metadata.creationTimestamp"),
    ),
)
