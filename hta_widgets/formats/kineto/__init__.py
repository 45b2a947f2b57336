"""formats/kineto."""
