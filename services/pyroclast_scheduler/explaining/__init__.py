"""Answers to "why does my Job wait, and when does it start?". All code is pure and uses the results of sessions."""
