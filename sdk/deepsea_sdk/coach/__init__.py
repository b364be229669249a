"""The coach: the worth of each decision, and the part of a result that was luck.

Modules in reading order: roll_outs.py plays positions on to the end of a dive, and
batched_roll_outs.py does the same for many at once with numpy. decisions.py compares the options of
a decision by roll-outs, and measures the luck of dice and hidden values in each step of a finished
game. formula.py has a quick evaluation without roll-outs, which is exact at a game's end, and sums
the luck of whole games by it. The coach is in the SDK because bots that search can race their
options with it, and because it needs nothing of the referee.
"""
