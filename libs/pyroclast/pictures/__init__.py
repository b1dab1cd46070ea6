"""Pictures as SVG text, drawn by pure functions."""
