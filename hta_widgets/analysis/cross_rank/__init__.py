"""Collectives over all ranks: from their events to the ranks that keep the others waiting.

Each module uses the results of earlier modules:

========================  ====================================================================
`comm_events`             the communication of one rank, with the args that name its collective
`alignment`               positions of one rank's events in the sequence of another
`comm_groups`             the process groups of all ranks
`matching`                events of different ranks that belong to one collective
`clock_fit`               offsets of the ranks' clocks, from the ends of collectives
`arrivals`                when each rank arrives, and which is last
`waits`                   how long each rank waits
`lateness`                how late each rank arrives, and what it did before
`imposed_waits`           how long the others wait for each rank
`late_causes`             why late ranks are late
`stragglers`              the verdict: which ranks keep the others waiting
========================  ====================================================================

`collectives` and `parallel_groups` return frames of collectives and process groups.
"""
