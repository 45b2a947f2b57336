"""Which lanes a rank has, what they hold, and how they are indexed."""
