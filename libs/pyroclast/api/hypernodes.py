"""HyperNode: a part of the network, which consists of nodes or of smaller parts."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, MinLen
from pydantic import ConfigDict, StringConstraints

from pyroclast.api import types
from pyroclast.api.enums import MemberType
from pyroclast.api.shared import Column, Condition, CustomKind
from pyroclast.api.wire import DNS_SUBDOMAIN, ApiObject, Extra, LabelSelector, Name, WireModel


class ExactMatch(WireModel):
    """Selects the member of one name."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=DNS_SUBDOMAIN)]
    """The name."""


class RegexMatch(WireModel):
    """Selects the members whose name matches a pattern."""

    pattern: Annotated[str, MinLen(1)]
    """The pattern, in the syntax of RE2."""


class Selector(WireModel):
    """Selects members in exactly one of three ways."""

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
    """Selects by name."""
    regex_match: RegexMatch | None = None
    """Selects by a pattern of the name."""
    label_match: LabelSelector | None = None
    """Selects by labels; for nodes only."""


class Member(WireModel):
    """Members of the HyperNode: nodes or other HyperNodes."""

    type: MemberType
    """The type of the members."""
    selector: Selector | None = None
    """Selects the members."""


class HyperNodeSpec(WireModel):
    """The position of a HyperNode in the network."""

    tier: Annotated[int, Ge(0)]
    """The tier: the lower it is, the closer are the nodes to each other."""
    tier_name: Name | None = None
    """The name of the tier."""
    members: Annotated[list[Member], MinLen(1)] | None = None
    """The members of the HyperNode."""


class HyperNodeStatus(WireModel):
    """The observed state of a HyperNode."""

    conditions: list[Condition] | None = None
    """Conditions of the HyperNode."""
    node_count: Annotated[int, Ge(0), Extra({"format": "int64"})] | None = None
    """Number of nodes of the HyperNode."""


class HyperNode(ApiObject):
    """A HyperNode is a part of the network: nodes, or smaller parts, that are close to each other."""

    spec: HyperNodeSpec | None = None
    """The position of the HyperNode in the network."""
    status: HyperNodeStatus | None = None
    """The observed state of the HyperNode."""


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
