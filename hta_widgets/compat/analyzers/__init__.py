"""HTA's analyses, one module a question, over `hta_widgets.analysis`."""
