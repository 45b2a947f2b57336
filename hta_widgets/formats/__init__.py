"""Code for individual trace formats; `hta_widgets.readers.formats` lists the formats."""
