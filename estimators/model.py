"""What every fitted model of many clients offers: its parameters, intervals, and local false sign rates.

Belongs here: what follows for all models from a posterior's distribution function and quantiles.  The models themselves
are in modules of their own (``gaussian_means`` and so on), and whether their intervals keep their promise is in
``coverage``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.validation import choice, finite, index, probability, single

__all__ = ["METHODS", "ClientModel"]

METHODS = ("posterior", "bootstrap", "robust", "every-client")
"""Ways to an interval, see `ClientModel.interval`."""


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
    - ``draw(generator, truth=None)`` : (truth, arguments), a new truth of every client from the fitted prior, or the one
      given, and new data of the same design (same variances, trials, ...), such that ``fit(*arguments)`` is valid;
      ``coverage`` uses it;
    - ``normal_estimates()`` : (estimates, variances), for models of normal estimates with known variances;
    - ``default_interval`` : the method that `interval` takes if none is named.
    """

    default_interval = "posterior"

    posterior_mean_: Floats
    posterior_sd_: Floats
    log_likelihood_: float
    converged_: bool
    n_iter_: int
    fit: Callable[..., Self]
    prior_summary: Callable[[], dict[str, Any]]

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

    def interval(self, level: float = 0.95, method: str | None = None, seed: int = 0) -> tuple[Floats, Floats]:
        """Return the ends (low, high) of an interval for each client, two arrays.

        Parameters
        ----------
        level : number in (0, 1), how often intervals should hold the truth.  How often they do is measured by ``coverage``.
        method : None for the model's own (``default_interval``), or
            "posterior", equal tails of the posterior; it holds on average over clients and priors as far as the prior is
            averaged over what the data leave open about it ("bayes"), and too seldom where a fitted prior is taken for true;
            "bootstrap", for a prior of any shape: the prior is learnt again from data drawn from the fitted one, and the
            client's posteriors under all of these are mixed (Laird and Louis 1987, type III; Carlin and Gelfand 1991);
            "robust", for normal estimates: holds on average over clients whatever law the true values have (Armstrong,
            Kolesar and Plagborg-Moller 2022; ``closed_forms.intervals``), around a shrunken estimate of its own;
            "every-client", for normal estimates: holds for every client, whatever its true value is (Hoff and Yu 2018).
        seed : whole number >= 0, of the bootstrap.
        """
        self.require_fit()
        level = single(probability, "level", level)
        if not 0 < level < 1:
            raise ValueError(f"level must lie strictly between 0 and 1, got {level}")
        method = self.default_interval if method is None else method
        choice("method", method, METHODS)
        if method == "posterior":
            return self.posterior_quantile((1 - level) / 2), self.posterior_quantile((1 + level) / 2)
        if method == "bootstrap":
            return self.bootstrap_interval(level, index("seed", seed, 0, 2**63))
        from estimators.closed_forms.intervals import fab_intervals, robust_intervals

        return (robust_intervals if method == "robust" else fab_intervals)(*self.normal_estimates(), level)

    def bootstrap_interval(self, level: float, seed: int) -> tuple[Floats, Floats]:
        """Return the intervals of method="bootstrap"."""
        raise ValueError(
            f"method='bootstrap' is for priors of any shape, and {type(self).__name__} has none; use method='posterior'"
        )

    def normal_estimates(self) -> tuple[Floats, Floats]:
        """Return the estimates and their known variances, arrays (m,), of a model of normal estimates."""
        raise ValueError(
            "methods 'robust' and 'every-client' need one normal estimate of known variance per client, which "
            f"{type(self).__name__} has not; leave out method"
        )

    def worst_noncoverage(self, level: float = 0.95) -> Floats:
        """Return how often each client's usual shrunken interval misses at worst, over all priors as wide as the data's.

        That is the interval mu + w (y - mu) -+ z sqrt(w) s with the weights of ``closed_forms.intervals.linear_shrinkage``;
        1 - `level` is what it promises.  For models of normal estimates.

        Raises
        ------
        ValueError for other models, or a level outside (0, 1).
        """
        from estimators.closed_forms.intervals import linear_shrinkage, worst_noncoverage

        self.require_fit()
        weights = linear_shrinkage(*self.normal_estimates()).weights
        return np.where(weights > 0, worst_noncoverage(np.maximum(weights, 1e-6), level), 1.0)

    @staticmethod
    def read_truth(truth: ArrayLike | None, shape: tuple[int, ...]) -> Floats:
        """Return true values that are given to `draw`, checked to be like the clients'."""
        given: Any = truth
        truth = finite("truth", given)
        if truth.shape != shape:
            raise ValueError(f"truth must be like the clients' true values, of shape {shape}, got {truth.shape}")
        return truth

    def draw(self, generator: np.random.Generator, truth: ArrayLike | None = None) -> tuple[Floats, tuple[Any, ...]]:
        """Return (truth, arguments of `fit`): new data of the same design, about the `truth` given or a new one."""
        raise NotImplementedError

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
