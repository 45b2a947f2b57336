"""Read files into traces."""
