"""Code specific to a trace format; `hta_widgets.readers.formats` lists the formats."""
