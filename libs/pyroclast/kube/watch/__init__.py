"""Local copies of objects, kept up to date by lists and watches."""
