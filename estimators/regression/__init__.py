"""Clients with a regression each: coefficients around common ones.

Belongs here: ``linear_clients`` and ``logistic_clients``, what both share (``coefficient_model``), their data
(``client_rows``), the papers' gradient algorithms (``gradient_personalization``). Does not belong here: closed forms of
one regression (``closed_forms.regression``) and the papers' losses (``closed_forms.priors``).
"""
