"""Made-up training jobs whose truth is known."""

from hta_widgets.demo.byteps import write_byteps_job
from hta_widgets.demo.job import write_demo

__all__ = ["write_byteps_job", "write_demo"]
