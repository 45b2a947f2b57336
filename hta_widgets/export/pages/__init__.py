"""Save pages: HTML files that contain a view, its data, and the code to draw it."""
