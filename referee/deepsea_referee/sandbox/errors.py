"""What goes wrong before a bot is started."""


class SandboxUnavailable(Exception):
    """No sandbox works here: one line that says what is missing, and what to do."""
