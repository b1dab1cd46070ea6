"""The base of job plugins under the name that it had before it moved to `pyroclast.lifecycle.jobplugins`."""

from __future__ import annotations

from pyroclast.lifecycle.jobplugins import JobPlugin, Manifest, PluginError, PluginObject

__all__ = ["JobPlugin", "Manifest", "PluginError", "PluginObject"]
