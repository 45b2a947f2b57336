"""Traces become files that open at once, and come back from them."""
