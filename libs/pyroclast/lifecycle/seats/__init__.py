"""Seats: places for pods of a gang that do not exist yet, published and placed by annotations of the gang's PodGroup."""
