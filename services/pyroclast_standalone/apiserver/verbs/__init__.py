"""What each request does: reads, writes, deletes, watches, subresources, discovery."""
