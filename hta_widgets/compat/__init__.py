"""HTA's classes over our analyses: a notebook moves by changing its imports."""
