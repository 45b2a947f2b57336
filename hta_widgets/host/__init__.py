"""Run widgets in a page without a Jupyter kernel; docs/protocol-hosts.md describes the wire."""
