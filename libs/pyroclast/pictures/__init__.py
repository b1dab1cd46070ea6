"""Pictures as SVG text, made by pure functions."""
