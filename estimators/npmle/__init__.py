"""Nonparametric maximum likelihood of a mixing distribution, with a certificate of how far it is from the best.

Model: theta_i ~ G, any distribution; client i's data have a known likelihood f_i(theta): Gaussian with its own variance,
binomial with its own number of trials, Poisson with its own exposure.  The fit maximises sum_i w_i log of the integral of
f_i dG over all G (Kiefer & Wolfowitz 1956, Ann. Math. Statist. 27:887; Lindsay 1983, Ann. Statist. 11:86).

Belongs here: the optimisation, free of what its result is used for (``clients`` are the likelihoods, ``solver`` and
``dual`` the search and its certificate, ``kernels`` the compiled loops, ``arrays`` the same in NumPy for few clients), and
the models with a `fit` method and posteriors, in ``nonparametric``; what clients leave open about the prior is in
``dirichlet``.  Does not belong here: priors of a given shape (``normal_means``, ``counts``).

How it works.  With D(theta) = (1/n) sum_i w_i f_i(theta) / f_i(G), no mixing distribution has a log-likelihood above
that of G plus n log max D.  A coordinate t in which all clients' likelihoods have constant width s_i (theta itself,
arcsin sqrt(p), sqrt(rate)) makes the three families alike: |f_i(t + iy)| <= max f_i exp(y^2 / (2 s_i^2)), so each is known
between the nodes of a grid of spacing s_i / 8 to within 1.6e-13 of its peak by polynomials of degree 15.  Clients are put on
grids of dyadic spacings by their widths, the piecewise polynomials added up, and their Bernstein coefficients bound
max D over the continuum from above.  The same polynomials give the local maxima, which become new atoms; masses
come from Newton steps under positivity (Wang 2007, JRSS B 69:185).  Work per round is linear in the number of clients.
"""

from estimators.npmle.clients import Clients, binomial_clients, gaussian_clients, poisson_clients
from estimators.npmle.solver import Mixing, maximise, optimality_gap

__all__ = ["Clients", "Mixing", "binomial_clients", "gaussian_clients", "maximise", "optimality_gap", "poisson_clients"]
