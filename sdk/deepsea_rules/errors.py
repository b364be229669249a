"""Exceptions of the rules; each is a RulesError, and that is a ValueError.

Every message is one line that quotes the bad value. The game is unchanged after an exception.
"""

from __future__ import annotations


class RulesError(ValueError):
    """Base class of all refusals of the rules."""


class InvalidAction(RulesError):
    """The text is no action, in any position."""


class IllegalAction(RulesError):
    """The action or roll is well formed, but the position does not allow it."""


class InvalidPosition(RulesError):
    """The text does not describe a position of this game."""


class InvalidRules(RulesError):
    """A rule set with unknown options, wrong values or a combination that makes no sense."""


class InvalidTimeControl(RulesError):
    """The text is no time control such as `100ms+2s`."""


class InvalidRecord(RulesError):
    """A record that is damaged, or that differs from its re-run."""
