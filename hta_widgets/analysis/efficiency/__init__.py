"""Efficiency of operators and steps relative to the limits of the device.

From the bottom up:

- `devices`: peaks and bandwidths of devices, matched by the properties in a file
- `calls`: the arguments of an operator call, as the profiler wrote them
- `kernel_names`: precision, category and tensor-core use, derived from a kernel's name
- `signatures`: the calls that do the work of a rank, with work from formulas or from the file
- `call_efficiency`: device time, limits and rates of each call
- `operator_efficiency`, `step_efficiency`: the public analyses
- `modules`: the ``nn.Module`` of each event, and the tree of modules
- `kernel_details`, `fusion_candidates`: occupancy and tensor cores; chains of pointwise operators
- `engine_steps`, `serving_steps`: steps of inference engines
"""
