"""Bots to learn from and to play against. Each file is one bot and one lesson.

    random_bot.py   what a bot is: pick one of the legal actions
    cautious.py     what a bot sees: its load, its way home, the air
    greedy.py       how to plan: does the air last until I am home?
    heuristic.py    how to calculate: chances to get home, times the points at stake
    steady.py       how to use a policy: the SDK's, which answers at once
    pearl.py        how to use what was learnt: the SDK's evaluation of every action
    diver.py        how to look ahead: try close actions many times, with equal luck

Run one with `deepsea-referee match greedy cautious random`, or copy a file and change it.
"""
