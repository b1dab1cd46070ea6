"""Elect and reserve: what the plugin reservation does, before allocate and after it."""


def elect(session):
    for tier in session.tiers:
        for plugin, flags in tier:
            if hasattr(plugin, "elect") and "targetJob" in flags:
                plugin.elect()
                return


def reserve(session):
    for tier in session.tiers:
        for plugin, flags in tier:
            if hasattr(plugin, "reserve") and "reservedNodes" in flags:
                plugin.reserve()
