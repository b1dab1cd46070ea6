"""The jobflow controller's settings: the original's flags, with its defaults."""

from __future__ import annotations

from pydantic import Field

from pyroclast.runtime.settings import CommaSeparated, LeaderElectionSettings

__all__ = ["JobFlowSettings"]


class JobFlowSettings(LeaderElectionSettings):
    """What can be set."""

    leader_elect_resource_name: str = Field("pyroclast-jobflow-controller", description="name of the Lease")
    kube_api_qps: float = Field(2000.0, ge=0, description="requests per second to the API server, 0 for no limit")
    kube_api_burst: int = Field(2000, ge=0, description="how many of them at once")
    listen_address: str = Field(":8081", description="where to serve /metrics")
    controllers: CommaSeparated = Field(("*",), description="which controllers run: name, -name, or * for all")
    max_requeue_num: int = Field(15, description="how often what is refused is tried before it is given up; negative: for ever")
