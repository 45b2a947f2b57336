"""Efficiency of operators and steps against the limits of the device.

From the bottom up:

- `devices`: peaks and bandwidths of devices, matched by the properties in a file
- `calls`: the arguments of one call of an operator, as the profiler wrote them
- `matrix_work`, `attention_work`, `vector_work`: formulas of FLOPs and minimum bytes; `work` has
  the table of operators and their formulas
- `kernel_names`: tensor cores, precision and category of a kernel, by its name
- `signatures`: the calls of a rank that do its work, with their work by formulas or by the file
- `call_efficiency`: device time, limits and rates of each call
- `operator_efficiency`, `step_efficiency`: the frames
- `modules`: the module of each event, and the tree of modules
- `kernel_details`, `fusion_candidates`: occupancy and tensor cores; chains of pointwise operators
- `engine_steps`, `serving_steps`: steps of inference engines
"""
