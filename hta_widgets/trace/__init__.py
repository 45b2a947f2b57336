"""The event model: ranks as columns, with tracks, kinds, steps and links."""
