"""Stands for a package that jsonschema can do without.

It builds grammars of international addresses when it is imported, which takes more than a second in
each process that reads or checks a notebook. No schema that tests use has such addresses.
"""

raise ImportError("left out in tests: see tests/support/without_grammars")
