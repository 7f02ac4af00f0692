"""What every fitted model of many clients offers: its parameters, intervals, and local false sign rates.

Belongs here: what follows for all models from a posterior's distribution function and quantiles.  The models themselves
are in modules of their own (``gaussian_means`` and so on), and whether their intervals keep their promise is in
``coverage``.
"""

from __future__ import annotations

import inspect
from typing import Any, Self

import numpy as np

from estimators.numerics.arrays import Floats
from estimators.numerics.validation import finite, probability, single

__all__ = ["ClientModel"]


class ClientModel:
    """Base of the models with one unknown number (or vector) per client and a prior learnt from all of them.

    A subclass keeps the arguments of its constructor under their own names, untouched, and checks them in `fit`.
    After `fit` it has

    - ``posterior_mean_``, ``posterior_sd_`` : arrays, clients on axis 0;
    - ``log_likelihood_`` : float, log density of the data at the fitted prior, constants included;
    - ``converged_`` : bool; ``n_iter_`` : int;
    - ``prior_summary()`` : dict of plain Python values that describe the prior which posteriors use, for people and JSON:
      "family", "mean" and "sd" of the clients' true values, "found_by" where there is a choice, "probabilities", "means"
      and "sds" of its groups where it has groups, and what is particular to the family.  An average of priors is described
      by the one that borrows as much from others for a client of average size;
    - ``weights_`` : where posterior means are linear in own estimates, the weight of each client's own;
    - ``posterior_cdf(t, strict=False)`` : P(theta_i <= t), or < t if strict, given the data, one entry per client;
    - ``posterior_quantile(q)`` : smallest t with P(theta_i <= t) >= q, one entry per client;
    - ``draw(generator)`` : (truth, arguments), a new truth of every client from the fitted prior and new data of the
      same design (same variances, trials, ...), such that ``fit(*arguments)`` is valid; ``coverage`` uses it.
    """

    posterior_mean_: Floats
    posterior_sd_: Floats
    log_likelihood_: float
    converged_: bool
    n_iter_: int

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the constructor; `deep` is scikit-learn's and changes nothing here."""
        return {name: getattr(self, name) for name in inspect.signature(type(self).__init__).parameters if name != "self"}

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the constructor and return self."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ValueError(f"{name} is no parameter of {type(self).__name__}; it has {list(known)}")
            setattr(self, name, value)
        return self

    def __repr__(self):
        chosen = {
            name: getattr(self, name)
            for name, parameter in inspect.signature(type(self).__init__).parameters.items()
            if name != "self" and getattr(self, name) is not parameter.default
        }
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in chosen.items())})"

    def posterior_cdf(self, t: float, strict: bool = False) -> Floats:
        """Return P(theta_i <= t), or P(theta_i < t) if `strict`, given the data, one entry per client."""
        raise NotImplementedError

    def posterior_quantile(self, q: float) -> Floats:
        """Return the smallest t with P(theta_i <= t) >= q given the data, one entry per client."""
        raise NotImplementedError

    def require_fit(self) -> None:
        """Raise ValueError unless `fit` has been called."""
        if not hasattr(self, "posterior_mean_"):
            raise ValueError(f"this {type(self).__name__} has not been fitted; call fit first")

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return the ends (low, high) of each client's equal-tailed posterior interval, two arrays.

        Parameters
        ----------
        level : number in (0, 1), the posterior probability between the ends.  How often intervals hold the truth over
            repetitions is measured by ``coverage``.
        """
        self.require_fit()
        level = single(probability, "level", level)
        if not 0 < level < 1:
            raise ValueError(f"level must lie strictly between 0 and 1, got {level}")
        return self.posterior_quantile((1 - level) / 2), self.posterior_quantile((1 + level) / 2)

    def prior_interval(self, level: float = 0.95) -> dict[str, tuple[float, float] | list[tuple[float, float]]]:
        """Return the ends (low, high) of intervals for the prior, by name, each by the way that suits how it was found.

        "mean" and "sd" of the clients' true values (with covariates: the intercept, and what they do not explain),
        "slopes" of covariates in their order, and "new client", where the true value of a client without data lies; those
        that the model has, which may be none.
        """
        self.require_fit()
        return {}

    def local_false_sign_rate(self, at: float = 0.0) -> Floats:
        """Return min(P(theta_i <= at), P(theta_i >= at)) given the data: the risk in naming the side of `at`.

        A posterior probability of theta_i = at counts on both sides (Stephens 2017, Biostatistics 18:275).
        """
        self.require_fit()
        at = single(finite, "at", at)
        return np.minimum(self.posterior_cdf(at), 1 - self.posterior_cdf(at, strict=True))
