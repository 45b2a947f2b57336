"""The critical path of a rank: the chain of dependencies that determines a step's duration.

The modules, in order of dependency:

=======  ===========================================================================================
`nodes`  the start and the end of each event, in an order in which all dependencies point forward
`edges`  the dependencies between nodes: threads, launches, streams, and waits
`graph`  the longest chain to each node, and the causes of the time along it
`walk`   segments for all of the span, along the longest chain and beyond its ends
`path`   the frame, selection and arrows for users
=======  ===========================================================================================

For example, a call from 0 to 2 µs launches a kernel that runs from 5 to 9 µs, and a call from 3 to
10 µs waits for it. The path has 5 µs of launch overhead, 4 µs of compute, and 1 µs of its return.
"""
