"""The names and kinds that a query asks for; the model reads them too, to find events fast."""

from hta_widgets.model.clauses import Clauses, read_clauses

__all__ = ["Clauses", "read_clauses"]
