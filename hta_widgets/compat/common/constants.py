"""HTA's constants."""

__all__ = ["CUDA_MAX_LAUNCH_QUEUE_PER_STREAM"]

#: From this many launches on that wait on a stream, further launches block; seen, not documented.
CUDA_MAX_LAUNCH_QUEUE_PER_STREAM = 1024
