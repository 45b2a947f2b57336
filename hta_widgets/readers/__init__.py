"""Readers that turn files into traces."""
