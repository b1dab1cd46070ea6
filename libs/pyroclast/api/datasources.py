"""DataSource and DataSourceClaim: where data lie and who needs them. Nothing serves these kinds yet, so there are no CRDs."""

from __future__ import annotations

from pyroclast.api.enums import ClaimPhase, ReclaimPolicy
from pyroclast.api.shared import Condition, ObjectReference
from pyroclast.api.wire import ApiObject, Int32, WireModel

__all__ = [
    "DataSource",
    "DataSourceClaim",
    "DataSourceClaimSpec",
    "DataSourceClaimStatus",
    "DataSourceSpec",
    "DataSourceStatus",
    "Locality",
    "Workload",
]


class Locality(WireModel):
    """Where data lie."""

    cluster_names: list[str]
    """The clusters that hold them."""


class DataSourceSpec(WireModel):
    """Which data these are."""

    system: str
    """The system that keeps them."""
    type: str
    """What they are in that system."""
    name: str
    """Their name in that system."""
    locality: Locality
    """Where they lie."""
    attributes: dict[str, str] | None = None
    """What else the system wants to know."""
    reclaim_policy: ReclaimPolicy | None = None
    """What becomes of the object when nobody claims it any more; kept when absent."""


class DataSourceStatus(WireModel):
    """Who uses the data."""

    claim_refs: list[ObjectReference] | None = None
    """The claims."""
    bound_claims: Int32 | None = None
    """Number of the claims."""
    conditions: list[Condition] | None = None
    """What holds for them."""


class DataSource(ApiObject):
    """A DataSource tells where data lie."""

    spec: DataSourceSpec | None = None
    """Which data these are."""
    status: DataSourceStatus | None = None
    """Who uses them."""


class Workload(WireModel):
    """What needs the data."""

    api_version: str
    """Group and version of the object."""
    kind: str
    """Kind of the object."""
    name: str
    """Name of the object."""
    namespace: str | None = None
    """Namespace of the object; that of the claim when absent."""


class DataSourceClaimSpec(WireModel):
    """Which data are needed."""

    system: str
    """The system that keeps them."""
    data_source_type: str
    """What they are in that system."""
    data_source_name: str
    """Their name in that system."""
    workload: Workload
    """What needs them."""
    attributes: dict[str, str] | None = None
    """What else the system wants to know."""


class DataSourceClaimStatus(WireModel):
    """Whether the data were found."""

    phase: ClaimPhase | None = None
    """Pending or Bound."""
    bound_data_source: str | None = None
    """The DataSource that was found."""
    conditions: list[Condition] | None = None
    """What holds for the claim."""


class DataSourceClaim(ApiObject):
    """A DataSourceClaim asks that a workload runs where its data lie."""

    spec: DataSourceClaimSpec | None = None
    """Which data are needed."""
    status: DataSourceClaimStatus | None = None
    """Whether they were found."""
