"""What a dashboard shows: one frame per panel for any selection, in words and in numbers."""
