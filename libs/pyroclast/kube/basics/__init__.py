"""Tools without knowledge of Kubernetes, except for its errors: backoff, deadlines, rates, clocks, slices of long work."""
