"""Programs, nodes, networks and the API server fail, and nothing is lost or done twice."""
