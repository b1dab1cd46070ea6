"""Beside Volcano, after Volcano, and held against what Volcano did."""
