"""What every fitted model of many clients offers: fit, predict, intervals, ranks, a summary, a picture.

Belongs here: the one contract, with all that follows for every model from posteriors and draws of them.  The models
themselves are in modules of their own (``gaussian_means`` and so on), decisions from posteriors in ``decisions``, and
whether intervals keep their promise is in ``coverage``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.validation import choice, finite, fraction, index, single

if TYPE_CHECKING:
    from estimators.decisions.ranking import Ranks
    from estimators.decisions.summaries import Summary

__all__ = ["METHODS", "ClientModel"]

METHODS = ("posterior", "integrated", "bootstrap", "robust", "every-client")
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
    - ``sample_posterior(generator, size)`` : array (size, m[, d]), joint draws of all clients given the data, of one prior
      each where the model averages over priors; ``independent`` : whether clients are independent given the data;
      ``atoms()`` : where several clients may be exactly equal; ``exceedances(rows)`` : chances of one client to exceed
      another, for models that have them in closed form.  Ranks and the other ``decisions`` use these;
    - ``averaged(seed)`` : the model with the posteriors that ``decisions`` use, itself but for priors of any shape;
    - ``own_numbers(arguments=None)`` : array (m,), what clients say by themselves, in the data of the fit or in those that
      `draw` returned, for checks of the prior; ``predictive_ranks()`` : where they fall in exact leave-one-out predictions;
    - ``normal_estimates()`` : (estimates, variances), for models of normal estimates with known variances;
    - ``default_interval`` : the method that `interval` takes if none is named.

    From these follow, with the same names, arguments and shapes for all models, ``interval``, ``rank``, ``summary``,
    ``plot``, ``posterior_draws``, ``local_false_sign_rate`` and ``local_false_discovery_rate``; ``prior_interval`` has what
    the model knows; ``predict()`` without arguments is the expected true value of a client without data, and with arguments
    what the model says it is.
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
        """Return the smallest t with P(theta_i <= t) >= q given the data, one entry per client; q is a number in (0, 1)."""
        raise NotImplementedError

    def posterior_quantiles(self, *levels: float) -> Floats:
        """Return quantiles of several levels, one row each; for models whose laws take as long as a quantile to set up."""
        return np.stack([self.posterior_quantile(q) for q in levels])

    def require_fit(self) -> None:
        """Raise ValueError unless `fit` has been called."""
        if not hasattr(self, "posterior_mean_"):
            raise ValueError(f"this {type(self).__name__} has not been fitted; call fit first")

    def interval(self, level: float = 0.95, method: str | None = None, seed: int = 0) -> tuple[Floats, Floats]:
        """Return the ends (low, high) of an interval for each client, two arrays.

        Parameters
        ----------
        level : number in (0, 1), how often intervals should hold the truth.  How often they do is measured by ``coverage``;
            ``tests/bench/ARENA.md`` shows it for every model's default, inside its family of priors and outside.
        method : None for the model's own (``default_interval``), or
            "posterior", equal tails of the posterior; it holds on average over clients and priors as far as the prior is
            averaged over what the data leave open about it ("bayes"), and too seldom where a fitted prior is taken for true;
            "integrated", for mixtures and priors of any shape: the posterior averaged over what all clients leave open
            about the prior;
            "bootstrap", for mixtures: the prior is learnt again from data drawn from the fitted one, and the client's
            posteriors under all of these are mixed (Laird and Louis 1987, type III; Carlin and Gelfand 1991);
            "robust", for normal estimates: holds on average over clients whatever law the true values have (Armstrong,
            Kolesar and Plagborg-Moller 2022; ``closed_forms.intervals``), around a shrunken estimate of its own;
            "every-client", for normal estimates: holds for every client, whatever its true value is (Hoff and Yu 2018).
        seed : whole number >= 0, of the draws of "integrated" and "bootstrap".
        """
        self.require_fit()
        level = single(fraction, "level", level)
        method = self.default_interval if method is None else method
        choice("method", method, METHODS)
        if method == "posterior":
            low, high = self.posterior_quantiles((1 - level) / 2, (1 + level) / 2)
            return low, high
        if method in ("integrated", "bootstrap"):
            seed = index("seed", seed, 0, 2**63)
            return (self.integrated_interval if method == "integrated" else self.bootstrap_interval)(level, seed)
        from estimators.closed_forms.intervals import fab_intervals, robust_intervals

        return (robust_intervals if method == "robust" else fab_intervals)(*self.normal_estimates(), level)

    def integrated_interval(self, level: float, seed: int) -> tuple[Floats, Floats]:
        """Return the intervals of method="integrated"."""
        raise ValueError(
            f"method='integrated' is for mixtures and priors of any shape; {type(self).__name__} has 'posterior' for it"
        )

    def bootstrap_interval(self, level: float, seed: int) -> tuple[Floats, Floats]:
        """Return the intervals of method="bootstrap"."""
        raise ValueError(f"method='bootstrap' is for mixtures, and {type(self).__name__} has none; leave out method")

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

    @property
    def independent(self) -> bool:
        """Whether clients are independent given the data, as under one prior for all that is taken for true."""
        return True

    def averaged(self, seed: int = 0) -> Self:
        """Return the model whose posteriors decisions are made from: this one, unless its default intervals are others.

        Models that fit one prior but by default give intervals averaged over others that the data allow (mixtures, whose
        hyperparameters are integrated; priors of any shape, drawn from what clients leave open) decide from that average.
        """
        self.require_fit()
        return self

    def sample_posterior(self, generator: np.random.Generator, size: int) -> Floats:
        """Return joint draws (size, m[, d]) of all true values given the data."""
        raise NotImplementedError

    def posterior_draws(self, draws: int = 1000, seed: int = 0) -> Floats:
        """Return joint draws of all clients' true values given the data, array (draws, m[, d]).

        For questions that no method answers, such as how often one client exceeds the sum of two others.  Where the model
        averages over priors each draw has one of them.  The same seed gives the same bits.
        """
        self.require_fit()
        from estimators.decisions.posterior import blocks

        draws = index("draws", draws, 1, 2**31)
        return np.concatenate(list(blocks(self, draws, index("seed", seed, 0, 2**63))))

    def exceedances(self, rows: slice) -> Floats | None:
        """Return P(theta_i > theta_j) of those clients i and all j, array (rows, m), or None where it has no closed form."""
        return None

    def atoms(self) -> Floats:
        """Return the values that several clients may have exactly, array (k,)."""
        return np.zeros(0)

    def own_numbers(self, arguments: tuple[Any, ...] | None = None) -> Floats:
        """Return what each client's data say by themselves, array (m,), of the fit or of what `draw` returned."""
        raise ValueError(f"checks of the prior need one number per client, which {type(self).__name__} has not")

    def predictive_ranks(self) -> Floats | None:
        """Return P(less than was seen) for each client given the others, array (m,), or None where it is not exact."""
        return None

    def predict(self) -> Any:
        """Return the expected true value of a client without data: a number, or an array (d,)."""
        self.require_fit()
        mean = self.prior_summary()["mean"]
        return np.array(mean) if np.ndim(mean) else float(mean)

    def rank(
        self,
        level: float = 0.95,
        *,
        first: int = 1,
        largest_first: bool = True,
        method: str = "posterior",
        draws: int | None = None,
        seed: int = 0,
    ) -> Ranks:
        """Return the ranks of the clients, 1 for the first, with how sure they are; of each coefficient by itself.

        Expected ranks and chances are best for squared errors of ranks and for the first k (Laird and Louis 1989, J. Educ.
        Stat. 14:29; Lin, Louis, Paddock and Ridgeway 2006, Bayesian Analysis 1:915), and regress to the middle: only the
        intervals say who is sure to be ahead of whom.

        Parameters
        ----------
        level : number in (0, 1) of the intervals.
        first : whole number k in 1..m; ``top`` is the probability to be among the first k.
        largest_first : whether rank 1 is that of the largest true value.
        method : of the intervals: "posterior", each client's by itself; "simultaneous", for normal estimates, sets that hold
            all ranks at once whatever the true values are (``decisions.simultaneous_ranks``), much wider.
        draws : whole number >= 2 of joint draws, or None for 400 to 10,000, fewer of many clients; seed : whole number >= 0.

        Raises
        ------
        ValueError
            For fewer than two clients, or an argument outside its domain.
        """
        from estimators.decisions.ranking import rank, simultaneous_ranks

        choice("method", method, ("posterior", "simultaneous"))
        found = rank(
            self.averaged(index("seed", seed, 0, 2**63)),
            level,
            first=first,
            largest_first=largest_first,
            draws=draws,
            seed=seed,
        )
        if method == "posterior":
            return found
        low, high = simultaneous_ranks(*self.normal_estimates(), level, largest_first)
        return found._replace(low=low, high=high, method=method)

    def summary(self, level: float = 0.95) -> Summary:
        """Return what was found, which prints as a page of text and shows as a table in notebooks."""
        from estimators.decisions.summaries import Summary

        low, high = self.interval(level)
        return Summary(
            repr(self), self.prior_summary(), self.prior_interval(level), self.posterior_mean_, self.posterior_sd_, low,
            high, level, self.log_likelihood_, bool(self.converged_),
        )  # fmt: skip

    def plot(self, ax: Any, level: float = 0.95, coefficient: int = 0) -> Any:
        """Draw the clients' intervals and means on the Matplotlib axes `ax`, ascending, and return `ax`.

        With several numbers per client, those of one `coefficient`.  The dashed line is the prior's mean, diamonds are where
        covariates give each client a mean of its own.
        """
        low, high = self.interval(level)
        mean, centre = self.posterior_mean_, np.atleast_1d(self.prior_summary().get("mean", np.nan))
        if mean.ndim > 1:
            coefficient = index("coefficient", coefficient, 0, mean.shape[1] - 1)
            mean, low, high = mean[:, coefficient], low[:, coefficient], high[:, coefficient]
        order, rows = np.argsort(mean, kind="stable"), np.arange(len(mean))
        ends = np.isfinite(low[order]) & np.isfinite(high[order])
        ax.hlines(rows[ends], low[order][ends], high[order][ends], linewidth=1.5, color="C0", alpha=0.45)
        ax.plot(mean[order], rows, "o", markersize=3.5, color="C0")
        each = getattr(self, "prior_mean_", None)
        if each is not None and (each != each[0]).any():
            ax.plot(each[order], rows, "D", markersize=2.5, color="C7", zorder=1.9)
        else:
            ax.axvline(centre[min(coefficient, centre.size - 1)], linestyle="--", linewidth=0.8, color="C7")
        if len(rows) <= 60:
            ax.set_yticks(rows, [str(i) for i in order])
        ax.set_xlabel(f"true value, mean and {100 * level:g}% interval")
        ax.set_ylabel("client")
        return ax

    def local_false_discovery_rate(self, at: float | None = None) -> Floats:
        """Return P(theta_i = at | data), the risk in saying that it differs from `at`; 0 for priors without such a point.

        `at` None is 0, or where the prior has its spike (Efron 2008, Statistical Science 23:1).
        """
        self.require_fit()
        at = 0.0 if at is None else single(finite, "at", at)
        return np.maximum(0.0, self.posterior_cdf(at) - self.posterior_cdf(at, strict=True))

    def local_false_sign_rate(self, at: float = 0.0) -> Floats:
        """Return min(P(theta_i <= at), P(theta_i >= at)) given the data: the risk in naming the side of `at`.

        A posterior probability of theta_i = at counts on both sides (Stephens 2017, Biostatistics 18:275).
        """
        self.require_fit()
        at = single(finite, "at", at)
        return np.minimum(self.posterior_cdf(at), 1 - self.posterior_cdf(at, strict=True))
