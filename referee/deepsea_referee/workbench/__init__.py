"""Tools for bot authors: check, compare, replay, variations, scaffold."""
