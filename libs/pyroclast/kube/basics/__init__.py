"""Tools without knowledge of Kubernetes, except for its errors: retries, deadlines, rates, clocks, slices of long work."""
