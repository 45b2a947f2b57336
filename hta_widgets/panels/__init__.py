"""The panels of a dashboard: their catalog, their frames for any selection, and the headline."""
