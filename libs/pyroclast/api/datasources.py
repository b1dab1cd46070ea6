"""DataSource and DataSourceClaim: the location of data, and the workloads that need them. No controller uses these kinds yet, so
there are no CRDs.
"""

from __future__ import annotations

from pyroclast.api.enums import ClaimPhase, ReclaimPolicy
from pyroclast.api.shared import Condition, ObjectReference
from pyroclast.api.wire import ApiObject, Int32, WireModel


class Locality(WireModel):
    """The location of data."""

    cluster_names: list[str]
    """The clusters that store the data."""


class DataSourceSpec(WireModel):
    """The data that a DataSource describes."""

    system: str
    """The system that stores the data."""
    type: str
    """The type of the data in that system."""
    name: str
    """The name of the data in that system."""
    locality: Locality
    """The location of the data."""
    attributes: dict[str, str] | None = None
    """Further attributes for the system."""
    reclaim_policy: ReclaimPolicy | None = None
    """Whether the object is deleted when no claim is bound to it; the object stays when absent."""


class DataSourceStatus(WireModel):
    """The claims that use the data."""

    claim_refs: list[ObjectReference] | None = None
    """The claims that are bound to the DataSource."""
    bound_claims: Int32 | None = None
    """Number of the bound claims."""
    conditions: list[Condition] | None = None
    """Conditions of the DataSource."""


class DataSource(ApiObject):
    """A DataSource describes the location of data."""

    spec: DataSourceSpec | None = None
    """The data that the DataSource describes."""
    status: DataSourceStatus | None = None
    """The claims that use the data."""


class Workload(WireModel):
    """The object that needs the data."""

    api_version: str
    """Group and version of the object."""
    kind: str
    """Kind of the object."""
    name: str
    """Name of the object."""
    namespace: str | None = None
    """Namespace of the object; the namespace of the claim when absent."""


class DataSourceClaimSpec(WireModel):
    """The data that a workload needs."""

    system: str
    """The system that stores the data."""
    data_source_type: str
    """The type of the data in that system."""
    data_source_name: str
    """The name of the data in that system."""
    workload: Workload
    """The object that needs the data."""
    attributes: dict[str, str] | None = None
    """Further attributes for the system."""


class DataSourceClaimStatus(WireModel):
    """The state of a claim."""

    phase: ClaimPhase | None = None
    """The phase, Pending or Bound."""
    bound_data_source: str | None = None
    """The DataSource to which the claim is bound."""
    conditions: list[Condition] | None = None
    """Conditions of the claim."""


class DataSourceClaim(ApiObject):
    """A DataSourceClaim requests that a workload runs in a cluster with its data."""

    spec: DataSourceClaimSpec | None = None
    """The data that the workload needs."""
    status: DataSourceClaimStatus | None = None
    """The state of the claim."""
