"""Plugins: the policies of a scheduling session, one module each."""
