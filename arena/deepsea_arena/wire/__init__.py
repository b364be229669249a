"""What the arena's dataclasses are on the wire."""
