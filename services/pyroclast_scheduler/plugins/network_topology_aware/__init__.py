"""Plugin network-topology-aware: pods of a gang are placed close together, and full hypernodes are filled first."""

from pyroclast_scheduler.plugins.network_topology_aware.plugin import NetworkTopologyAware

__all__ = ["NetworkTopologyAware"]
