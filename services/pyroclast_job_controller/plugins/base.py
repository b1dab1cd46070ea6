"""Compatibility import of the base classes of job plugins, which are defined in `pyroclast.lifecycle.jobplugins`."""

from __future__ import annotations

from pyroclast.lifecycle.jobplugins import JobPlugin, Manifest, PluginError, PluginObject

__all__ = ["JobPlugin", "Manifest", "PluginError", "PluginObject"]
