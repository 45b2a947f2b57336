"""Stores: folders of mappable files in which traces are saved and from which they load fast."""
