"""Two users of one cluster, neither of whom can stop, starve, outrank or impersonate the other."""
