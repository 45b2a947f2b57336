"""Run widgets in a page without a Jupyter kernel; docs/protocol.md describes the wire."""
