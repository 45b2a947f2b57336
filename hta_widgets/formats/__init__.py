"""What only one format of trace files has; `hta_widgets.readers.formats` lists the formats."""
