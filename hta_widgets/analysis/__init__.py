"""Plain functions from traces to DataFrames, one module per question."""
