"""Save traces to folders of memory-mappable files, from which they load fast."""
