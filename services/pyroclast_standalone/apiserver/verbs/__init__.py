"""The handlers of requests: reads, writes, deletes, watches, subresources, discovery."""
