"""The critical path of a rank: rules, nodes, edges, and the longest path through them."""
