"""Hosts that run widgets in a page without Jupyter; docs/protocol-hosts.md defines the protocol."""
