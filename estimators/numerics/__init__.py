"""What every other room computes with: checks of arguments, limits, units, exact sums, inversion, numerical laws.

Belongs here: arithmetic and checks that know no statistical model. Does not belong here: anything with a claim, files and
processes (``system``). A map:

- ``validation`` reads arguments, ``rows`` lists of clients' rows; ``limits`` is arithmetic at 0 and infinity, ``units``
  keeps squares in range, ``wide`` has numbers that nothing takes out of range;
- ``exact`` (with ``exact_kernels``) sums without rounding, ``tally_state`` saves and loads what was summed;
- ``surfaces`` (with ``surface_kernels``) are smooth functions at very many places, ``quadrature`` few places
  that stand for many; ``spread_law`` is the law of a variance between clients that all models average over;
- ``inversion`` finds quantiles, ``normal_mixture`` (with ``mixture_kernels``) and ``logistic_normal`` are laws,
  ``mixture_draws`` draws from some;
- ``arrays`` names the types that annotations use, ``blocks`` cuts work on many clients into parts.
"""
