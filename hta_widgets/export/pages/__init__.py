"""Save views as HTML files that also contain their data and the code to draw them."""
