"""A made-up training job whose truth is known."""

from hta_widgets.demo.job import write_demo

__all__ = ["write_demo"]
