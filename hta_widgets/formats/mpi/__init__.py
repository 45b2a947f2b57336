"""formats/mpi."""
