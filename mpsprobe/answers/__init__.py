"""Answers that are known already: kept by an earlier run, or shipped by a plugin. Imports nothing heavy. Public.

``mpsprobe.answers.question`` says what is asked, ``mpsprobe.answers.lookup`` finds the answer: in the cache first, then
among what plugins know. Whoever works one out asks here before, and keeps what came of it.
"""
