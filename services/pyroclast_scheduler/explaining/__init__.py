"""Answers to "why does my Job wait, and when does it start?": pure, made between sessions from what they found out."""
