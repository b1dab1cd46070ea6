"""Requests and answers: route, content type, body, selection of objects, and the form of the answer."""
