"""HTA's traces as frames, and what works on such frames."""
