"""The names and kinds that a query asks for; the model reads them too, to find events fast."""

from hta_widgets.trace.clauses import Clauses
from hta_widgets.trace.clauses import read_clauses

__all__ = ["Clauses", "read_clauses"]
