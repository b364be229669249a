"""The referee of Deep Sea Adventure bot games. Start reading at match.py."""
