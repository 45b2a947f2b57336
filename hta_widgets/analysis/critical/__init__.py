"""The critical path of a rank: the chain of dependencies that determines how long a step takes.

For example, a call from 0 to 2 µs launches a kernel that runs from 5 to 9 µs, and a call from 3 to
10 µs waits for it. The path has 5 µs of launch overhead, 4 µs of compute, and 1 µs from the end of
the kernel to the return of the waiting call.
"""
