"""Replaces a package that jsonschema can do without.

The package builds grammars for internationalized addresses on import, which takes more than a
second in each process that reads or validates a notebook. No schema in these tests uses such
addresses.
"""

raise ImportError("left out in tests: see tests/support/without_grammars")
