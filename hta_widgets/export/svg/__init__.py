"""A timeline's view as a vector picture, drawn without a browser."""
