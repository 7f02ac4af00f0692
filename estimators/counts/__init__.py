"""Clients with counts: successes out of trials, events over exposures, and their tallies.

Belongs here: ``beta_binomial`` and ``gamma_poisson``, what both share (``conjugate``), sums over clients (``tallies``).
Does not belong here: a prior of any shape (``npmle``), the papers' moments (``closed_forms.bernoulli``).
"""
