"""The coach: what a decision was worth, and how much of a result was luck.

Modules in reading order: roll_outs.py plays positions on to the end of a dive, and
batched_roll_outs.py does the same for many at once with numpy. decisions.py compares the options of
a decision by them. luck.py has the steps of a finished game, and what dice and hidden values did in
each. formula.py sums the luck of whole games by the quick evaluation of formula.py, which is
exact at a game's end. The coach is in the SDK because bots that search can race their options with
it, and because it needs nothing of the referee.
"""
