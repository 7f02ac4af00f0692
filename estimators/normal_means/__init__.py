"""Clients with one normal estimate each, whose variances are known: priors, posteriors, and tallies for many clients.

Belongs here: ``gaussian_means`` (normal prior), ``point_normal`` (some clients are the centre), ``mixture_means``
(groups), ``streaming`` with ``streaming_passes`` and ``streaming_prior`` (more clients than memory). Does not belong here:
a prior of any shape (``npmle``), closed-form risks (``closed_forms.gaussian``).
"""
