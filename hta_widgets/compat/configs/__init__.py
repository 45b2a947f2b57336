"""HTA's configuration, as far as it still has a meaning."""
