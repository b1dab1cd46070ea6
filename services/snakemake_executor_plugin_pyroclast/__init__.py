"""Snakemake finds executors by the name of their package: this one is in `pyroclast_client.integrations.snakemake`."""

from pyroclast_client.integrations.snakemake import Executor, ExecutorSettings, common_settings

__all__ = ["Executor", "ExecutorSettings", "common_settings"]
