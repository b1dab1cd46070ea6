"""Plugin task-topology: tasks of a job that belong together go to the same node, others apart."""

from pyroclast_scheduler.plugins.task_topology.plugin import TaskTopology

__all__ = ["TaskTopology"]
