"""The coach: what a decision was worth and how much was luck.

Read in this order: roll_outs.py plays positions on to the end of a dive (batched_roll_outs.py does
the same for many at once with numpy), decisions.py compares options by that, luck.py has the steps
of a finished game and what dice and hidden values did in it. chance_sum.py sums the luck of whole
games by the quick evaluation of formula.py, which is exact at a game's end. It is in the SDK
because bots that search may race their options as well, and since it needs nothing of the referee.
"""
