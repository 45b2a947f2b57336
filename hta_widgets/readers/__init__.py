"""Files become traces."""
