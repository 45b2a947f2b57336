"""Save views as HTML files that include their data and the code to draw them."""
