"""Code for single trace formats; `hta_widgets.readers.formats` lists the formats."""
