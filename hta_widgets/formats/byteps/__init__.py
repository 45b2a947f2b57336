"""formats/byteps."""
