"""Synthetic training jobs with known ground truth."""

from hta_widgets.demo.byteps import write_byteps_job
from hta_widgets.demo.exact_jobs import write_exact_job
from hta_widgets.demo.job import write_demo
from hta_widgets.demo.mpi import write_mpi_job

__all__ = ["write_byteps_job", "write_demo", "write_exact_job", "write_mpi_job"]
