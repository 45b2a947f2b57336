"""What the page of a comparison asks for, from a kernel or from a saved file."""
