"""Files changed at random: whatever reads them gives a report or an error of ours, in bounded time and memory.

``python -m tests.fuzz reports 1000000 --seed 1`` from the root of the repository is a long run by hand.
``test_short.py`` runs a few cases of each target with all other tests.
A case depends on the seed and on its number alone: ``--first 4711`` and a count of 1 repeat the case of that number.
"""
