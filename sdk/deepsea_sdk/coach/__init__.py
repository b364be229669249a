"""The coach: what a decision was worth and how much was luck.

Read in this order: common_luck.py plays positions on, racing.py compares options by that,
decisions.py judges a decision by its view, course.py has the steps of a finished game, luck.py what
dice and hidden values did, by roll-outs. chance_sum.py sums the luck of whole games by the quick
evaluation of formula.py, which is exact at a game's end: ending.py. It is in the SDK because bots
that search may race their options as well, and because it needs nothing but the rules.
"""
