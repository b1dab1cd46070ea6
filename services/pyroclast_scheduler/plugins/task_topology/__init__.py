"""Plugin task-topology: related tasks of a job are placed on the same node, and others on different nodes."""

from pyroclast_scheduler.plugins.task_topology.plugin import TaskTopology

__all__ = ["TaskTopology"]
