"""Traces of BytePS workers and profiles of BytePS servers."""
