"""Modify SQLite databases."""

import sqlite3
from contextlib import closing


def change(path, *statements):
    """Run SQL statements on a database and return its path."""
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()
    return path
