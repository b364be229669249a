"""The types that are exchanged between the store, workers and front ends.

Invariants: plain values, compared by content; nothing here knows a database, so unpickling one in
a worker loads no SQLAlchemy; times are the database's, in milliseconds since 1970.
"""
