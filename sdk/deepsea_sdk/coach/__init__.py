"""The coach: what a decision was worth and how much was luck.

Read in this order: decisions.py plays positions on and compares options by that, luck.py has the
steps of a finished game and what dice and hidden values did in it, by roll-outs. chance_sum.py sums
the luck of whole games by the quick evaluation of formula.py, which is exact at a game's end. It is
in the SDK because bots that search may race their options as well, and because it needs nothing but
the rules.
"""
