"""Local copies of objects, kept current by lists and watches."""
