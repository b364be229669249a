"""The ladder's API: each method declared once, for programs, pages and commands, near or far."""
