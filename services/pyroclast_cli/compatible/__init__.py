"""Volcano's commands, with the same flags, texts, tables and exit statuses."""
