"""What has no word of Kubernetes in it but errors: pauses, deadlines, rates, clocks, slices of long work."""
