"""HTTP: who looks, which page, and the streams of changes."""
