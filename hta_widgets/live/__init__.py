"""Requests from pages about a job or a comparison: their types, and their answers."""
