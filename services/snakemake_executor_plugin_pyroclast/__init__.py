"""Snakemake finds an executor by the name of its package. The implementation is `pyroclast_client.integrations.snakemake`."""

from pyroclast_client.integrations.snakemake import Executor, ExecutorSettings, common_settings

__all__ = ["Executor", "ExecutorSettings", "common_settings"]
