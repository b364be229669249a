"""What the ladder does for people who have no shell on its machine: one class with every check."""
