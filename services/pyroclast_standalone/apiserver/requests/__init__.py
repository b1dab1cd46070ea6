"""One request and its answer: route, content type, body, what it selects, the form of the answer."""
