"""Estimates with known unequal variances and a prior that is a mixture of a few points or a few Gaussians.

Model: theta_i ~ sum_l p_l N(mu_l, tau2_l I), estimate_i ~ N(theta_i, variance_i I), in one dimension or more; points have
tau2_l = 0.

Belongs here: the fitted model, with the choice of k, and the posteriors.  Does not belong here: the search for the best
prior with k components (``mixture_likelihood``), one Gaussian (``gaussian_means``), posteriors and risks under a known
discrete prior and the paper's Algorithm 1 (``mixture``), priors without a number of components (the nonparametric ones).
"""

from __future__ import annotations

import copy
import warnings
from typing import Any, Literal, Self

import numpy as np

from estimators.closed_forms.mixture import points, spread, values_wanted
from estimators.model import ClientModel
from estimators.normal_means.mixture_likelihood import Data, learn
from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.inversion import quantiles
from estimators.numerics.mixture_draws import drawn_parts
from estimators.numerics.units import LOG2, gaussian_unit, represented
from estimators.numerics.validation import choice, count, finite, fraction, paired, positive, single

__all__ = ["MixtureMeans"]

MOST = 20  # components that "bic" tries; each more costs about k^4, and estimates far apart would have one each
REFITS = 25  # priors that intervals mix
SPARE = 4  # components, at least, that intervals average over if their number was searched for
DRAWS, MIXED = (25, 200), 500_000  # priors that intervals average over, and normal laws in all
LEARNERS = 2000  # clients whom each of them is learnt from, if there are more


class MixtureMeans(ClientModel):
    """Empirical Bayes for means whose prior is a mixture of k points or k Gaussians, learnt from all clients.

    Model: theta_i ~ sum_l p_l N(mu_l, tau2_l I) and estimate_i ~ N(theta_i, variance_i I) with known variances, which may
    differ.  Maximum likelihood by EM from several starts, finished by Newton's method; the likelihood never falls.
    Claims: generative:thm5, generative:alg1:em.

    Parameters
    ----------
    k : whole number >= 1 of components, or "bic": the number with the least Bayesian information criterion, going up until
        it has risen twice, to 20 at most; a warning says where it still fell there.  For mixtures it is a rule of thumb that
        errs towards few components.
    components : "gaussian", or "points" for tau2_l = 0.
    restarts : whole number >= 1 of starts for each k; they are compared on a sample if there are many clients.
    max_iter : whole number >= 1 of Newton steps.
    tol : number > 0; settled when no derivative of the log-likelihood per client, in standardised parameters, exceeds it
        (times the root of the second derivative where that is above 1).
    seed : whole number, seed of the starts.

    Attributes
    ----------
    p_, mus_, tau2s_ : the prior, components by their centre's first coordinate; (k,), (k,) or (k, d), (k,).  A variance of
        0 is a point.
    k_ : number of components; path_ : dict from each k that was tried to its (log-likelihood, criterion).
    responsibilities_ : array (m, k), posterior probability of each component for each client.
    posterior_mean_, posterior_sd_ : like the estimates; sd per coordinate.  They take the fitted prior for true, which is
        honest for clear groups and many clients only; intervals do not, but average over weights, centres and variances
        that the data leave possible (``interval``, method "integrated"; or "bootstrap": priors learnt from drawn data).
    log_likelihood_ : log density of the estimates; log_likelihoods_ : its trace, which never falls.
    converged_ : bool; n_iter_ : length of the trace.  A local maximum may be all that was found, as with every mixture.

    >>> model = MixtureMeans(k=2, components="points").fit([-2.1, -1.9, 1.8, 2.0, 2.2], variances=0.01)
    >>> model.p_.round(3).tolist(), model.mus_.round(3).tolist(), model.converged_
    ([0.4, 0.6], [-2.0, 2.0], True)
    """

    k_: int
    p_: Floats
    mus_: Floats
    tau2s_: Floats
    responsibilities_: Floats
    log_likelihoods_: Floats
    default_interval = "integrated"
    _parts: np.ndarray | None = None  # where the components of each prior begin that is averaged over
    path_: dict[int, tuple[float, float]]

    def __init__(
        self,
        k: int | Literal["bic"] = "bic",
        components: Literal["gaussian", "points"] = "gaussian",
        restarts: int = 10,
        max_iter: int = 1000,
        tol: float = 1e-8,
        seed: int = 0,
    ) -> None:
        self.k = k
        self.components = components
        self.restarts = restarts
        self.max_iter = max_iter
        self.tol = tol
        self.seed = seed

    @paired
    def fit(self, estimates: ArrayLike, variances: ArrayLike) -> Self:
        """Fit the prior and the posterior of every client.

        Parameters
        ----------
        estimates : array (m,) or (m, d), m >= 2 and m >= k; variances : number > 0 or array (m,), known sampling variance
            of each coordinate.

        Returns
        -------
        self

        Raises
        ------
        ValueError naming the argument that is out of its domain.
        """
        y, self._flat = points("estimates", estimates)
        v = spread(variances, len(y))
        if len(y) < 2:
            raise ValueError("estimates must hold at least two clients to learn a prior from")
        self._y, self._v = y, v
        exponent, y, v = gaussian_unit(y, v)
        choice("components", self.components, ("gaussian", "points"))
        starts, longest = int(single(count, "restarts", self.restarts)), int(single(count, "max_iter", self.max_iter))
        tol = single(positive, "tol", self.tol)
        data = Data(y, v, self.components)
        few = data.sample(np.random.default_rng(self.seed))
        self.path_, best, previous, rises = {}, None, None, 0
        searching = isinstance(self.k, str)
        if isinstance(self.k, str):
            choice("k", self.k, ("bic",))
            wanted = range(1, min(len(y), MOST) + 1)
        else:
            wanted = (values_wanted(self.k, len(y)),)
        for k in wanted:
            found = learn(data, few, k, starts, longest, tol, np.random.default_rng([self.seed, k]), previous)
            freedom = k - 1 + k * y.shape[1] + (k if self.components == "gaussian" else 0)
            criterion = -2 * found[0].value + freedom * np.log(len(y))
            self.path_[k] = (found[0].value, float(criterion))
            if best is None or criterion < best[0]:
                best, rises = (criterion, found), 0
            else:
                rises += 1
            if rises == 2:
                break
            previous = found[0]
        else:
            if searching and len(y) > MOST:
                warnings.warn(
                    f"k='bic' stops at {MOST} components, where the criterion may still fall: there are no few groups; "
                    "give k, or use a nonparametric prior",
                    RuntimeWarning,
                    stacklevel=3,
                )
        assert best is not None
        prior, self.log_likelihoods_, self.converged_ = best[1]
        if not self.converged_:
            warnings.warn("the fit did not settle; raise max_iter, or tol", RuntimeWarning, stacklevel=3)
        order = np.lexsort(prior.mus.T[::-1])
        self.p_, mus, tau2s = prior.p[order], prior.mus[order], prior.tau2s[order]
        weights, centres, sds = posteriors(y, v, self.p_, mus, tau2s)
        mean = np.einsum("km,kmd->md", weights, centres)
        sd = np.sqrt(np.einsum("km,kmd->md", weights, sds**2 + (centres - mean) ** 2))
        # From the unit of the fit back to that of the data.
        represented("estimates", float(tau2s.max()), 2 * exponent)
        self.tau2s_, self._mus = np.ldexp(tau2s, 2 * exponent), np.ldexp(mus, exponent)
        self.mus_ = self._shaped(self._mus)
        self._weights, self._centres, self._sds = weights, np.ldexp(centres, exponent), np.ldexp(sds, exponent)
        self.posterior_mean_, self.posterior_sd_ = (self._shaped(np.ldexp(a, exponent)) for a in (mean, sd))
        shift = y.size * exponent * LOG2
        self.path_ = {k: (value - shift, criterion + 2 * shift) for k, (value, criterion) in self.path_.items()}
        self.log_likelihoods_ = self.log_likelihoods_ - shift
        self.k_, self.log_likelihood_, self.n_iter_ = len(self.p_), prior.value - shift, len(self.log_likelihoods_)
        self.responsibilities_ = weights.T
        return self

    def _shaped(self, array):
        return array[:, 0] if self._flat else array

    def posterior_cdf(self, t: ArrayLike, strict: bool = False) -> Floats:
        """Return P(theta_i <= t), or < t if `strict`, given the data; like the estimates, t a number or of that shape."""
        from scipy.special import ndtr

        self.require_fit()
        t = finite("t", t)
        gaps = (t[:, None] if t.ndim == 1 else t) - self._centres
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.where(self._sds > 0, ndtr(gaps / self._sds), gaps > 0 if strict else gaps >= 0)
        return self._shaped(np.minimum(1.0, np.einsum("km,kmd->md", self._weights, shares)))

    def posterior_quantile(self, q: float) -> Floats:
        """Return the smallest t with P(theta_i <= t) >= q given the data, like the estimates; q in (0, 1)."""
        from scipy.special import ndtr, ndtri

        self.require_fit()
        q = single(fraction, "q", q)
        k, m, d = self._centres.shape
        centres = self._centres.reshape(k, m * d)
        sds, weights = (np.repeat(a.reshape(k, m), d, axis=1) for a in (self._sds, self._weights))
        ends = centres + ndtri(q) * sds  # the mixture's quantile lies between those of its components
        ends = np.where(weights > 0, ends, np.nan)
        low, high = np.nanmin(ends, axis=0), np.nanmax(ends, axis=0)

        def cdf(t, rows, strict=False):
            gaps, sd = t - centres[:, rows], sds[:, rows]
            with np.errstate(divide="ignore", invalid="ignore"):
                shares = np.where(sd > 0, ndtr(gaps / sd), gaps > 0 if strict else gaps >= 0)
            return np.einsum("km,km->m", weights[:, rows], shares)

        def density(t, rows):
            sd = np.where(sds[:, rows] > 0, sds[:, rows], np.inf)
            heights = np.exp(-0.5 * ((t - centres[:, rows]) / sd) ** 2)
            return [np.einsum("km,km->m", weights[:, rows] / sd, heights) / ROOT_2PI]

        everyone = np.arange(m * d)
        for atom in self._mus[self.tau2s_ == 0]:
            t = np.tile(atom, m)
            here = (cdf(t, everyone) >= q) & (cdf(t, everyone, strict=True) < q)
            low, high = np.where(here, t, low), np.where(here, t, high)
        mean, sd = (np.reshape(a, m * d) for a in (self.posterior_mean_, self.posterior_sd_))
        return self._shaped(quantiles(cdf, density, q, low, high, mean + ndtri(q) * sd).reshape(m, d))

    def integrated_interval(self, level: float, seed: int) -> tuple[Floats, Floats]:
        """Return quantiles of the posteriors of `averaged`."""
        return self.averaged(seed).interval(level, "posterior")

    @property
    def independent(self) -> bool:
        """Whether one prior is taken for true."""
        return self._parts is None

    def averaged(self, seed: int = 0) -> Self:
        """Return a model with each client's posterior averaged over what all clients leave open about the prior.

        The hyperprior of ``mixture_sampling``: with k given weights are uniform; with k="bic" their law is sparse, and
        there is a component more than the criterion chose, at least `SPARE` in all, which may stay empty.
        """
        from estimators.normal_means.mixture_sampling import chain

        self.require_fit()
        exponent, y, v = gaussian_unit(self._y, self._v)
        unit, centre = 1 / np.sqrt(np.mean(1 / v)), np.average(y, axis=0, weights=1 / v)
        y, v = (y - centre) / unit, v / unit**2
        m, d = y.shape
        k = self.k_ if self.k != "bic" else min(m, max(self.k_ + 1, SPARE))
        extra = k - self.k_
        start = (
            np.append(self.p_, np.full(extra, 1e-3)) / (1 + 1e-3 * extra),
            np.concatenate(((np.ldexp(self._mus, -exponent) - centre) / unit, np.zeros((extra, d)))),
            np.append(np.ldexp(self.tau2s_, -2 * exponent) / unit**2, np.ones(extra) * (self.components == "gaussian")),
        )
        draws = int(np.clip(MIXED // (m * k), *DRAWS)) if self.components == "gaussian" else DRAWS[0]
        reach2 = max(1.0, float(np.max(np.abs(y))) ** 2)
        found = chain(
            np.random.default_rng(seed), y, v, reach2, 1.0 if extra == 0 else 1 / k, self.components == "points",
            *start, 4 * draws, 4, draws,
        )  # fmt: skip
        return self._mixed([(p, centre + unit * mus, tau2s * unit**2) for p, mus, tau2s in zip(*found, strict=True)])

    def bootstrap_interval(self, level: float, seed: int) -> tuple[Floats, Floats]:
        """Return quantiles of the average of each client's posteriors under `REFITS` priors learnt from drawn data.

        Of more than 2000 clients each prior is learnt from 2000, drawn anew, so that it is believed a little less than it
        could be.
        """
        self.require_fit()
        generator, m = np.random.default_rng(seed), self._v.size
        options = {**self.get_params(), "restarts": min(int(self.restarts), 2)}
        k, priors = gaussian_unit(self._y, self._v)[0], []
        for _ in range(REFITS):
            _, (y, v) = self.draw(generator)
            rows = np.sort(generator.choice(m, LEARNERS, replace=False)) if m > LEARNERS else slice(None)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                prior = type(self)(**options).fit(y[rows], v[rows])
            priors.append((prior.p_, np.ldexp(prior._mus, -k), np.ldexp(prior.tau2s_, -2 * k)))
        return self._mixed(priors).interval(level, "posterior")

    def _mixed(self, priors):
        """Return a model with the average of clients' posteriors under priors (p, mus, tau2s) in the unit of the fit."""
        k, y, v = gaussian_unit(self._y, self._v)
        weights, centres, sds = (
            np.concatenate(parts) for parts in zip(*(posteriors(y, v, *p) for p in priors), strict=True)
        )
        mixed = copy.copy(self)
        mixed._weights, mixed._centres, mixed._sds = weights / len(priors), np.ldexp(centres, k), np.ldexp(sds, k)
        mixed._mus = np.ldexp(np.concatenate([mus for _, mus, _ in priors]), k)
        mixed.tau2s_ = np.ldexp(np.concatenate([tau2s for *_, tau2s in priors]), 2 * k)
        mean = np.einsum("km,kmd->md", mixed._weights, mixed._centres)
        sd = np.sqrt(np.einsum("km,kmd->md", mixed._weights, mixed._sds**2 + (mixed._centres - mean) ** 2))
        mixed.posterior_mean_, mixed.posterior_sd_ = self._shaped(mean), self._shaped(sd)
        mixed._parts = np.cumsum([0, *(p.size for p, *_ in priors)])
        return mixed

    def prior_summary(self) -> dict[str, Any]:
        """Return the fitted prior as plain Python values."""
        self.require_fit()
        mean = self.p_ @ self._mus
        sd = np.sqrt(self.p_ @ (self.tau2s_[:, None] + (self._mus - mean) ** 2))
        return {
            "family": "mixture of Gaussians" if self.components == "gaussian" else "points",
            "found_by": "marginal-likelihood",
            "mean": mean[0] if mean.size == 1 else mean.tolist(),
            "sd": sd[0] if sd.size == 1 else sd.tolist(),
            "probabilities": self.p_.tolist(),
            "means": self.mus_.tolist(),
            "sds": np.sqrt(self.tau2s_).tolist(),
        }

    def atoms(self) -> Floats:
        """Return the places of the components without spread, of clients with one number each."""
        self.require_fit()
        return self._mus[self.tau2s_ == 0].ravel()

    def sample_posterior(self, generator: np.random.Generator, size: int) -> Floats:
        """Return draws (size, m[, d]) of all true values given the data."""
        self.require_fit()
        m, d = self._y.shape
        ends = np.array([0, len(self._weights)]) if self._parts is None else self._parts
        prior = np.sort(generator.integers(len(ends) - 1, size=size))
        part, uniforms = np.empty((size, m), np.int64), generator.random((size, m))
        for k in np.unique(prior):
            part[prior == k] = ends[k] + drawn_parts(self._weights[ends[k] : ends[k + 1]].T, uniforms[prior == k])
        clients = np.arange(m)
        theta = self._centres[part, clients] + self._sds[part, clients] * generator.standard_normal((size, m, d))
        return theta[..., 0] if self._flat else theta

    def own_numbers(self, arguments: tuple[Any, ...] | None = None) -> Floats:
        """Return the clients' own estimates, of clients with one number each."""
        self.require_fit()
        if not self._flat:
            return super().own_numbers()
        return self._y[:, 0] if arguments is None else np.asarray(arguments[0])

    def normal_estimates(self) -> tuple[Floats, Floats]:
        """Return the estimates and their variances, of clients with one number each."""
        self.require_fit()
        if not self._flat:
            raise ValueError(
                "methods 'robust' and 'every-client' need one number per client, not a vector; leave out method"
            )
        return self._y[:, 0], self._v

    def draw(self, generator: np.random.Generator, truth: ArrayLike | None = None) -> tuple[Floats, tuple[Floats, Floats]]:
        """Draw new values from the fitted prior and new estimates of the same variances: (truth, (estimates, variances))."""
        self.require_fit()
        m, d = self._v.size, self._mus.shape[1]
        if truth is None:
            which = generator.choice(self.k_, m, p=self.p_)
            truth = self._mus[which] + np.sqrt(self.tau2s_[which])[:, None] * generator.standard_normal((m, d))
        else:
            truth = self.read_truth(truth, self.posterior_mean_.shape).reshape(m, d)
        estimates = truth + np.sqrt(self._v)[:, None] * generator.standard_normal((m, d))
        return self._shaped(truth), (self._shaped(estimates), self._v)


ROOT_2PI = np.sqrt(2 * np.pi)


def posteriors(y: Floats, v: Floats, p: Floats, mus: Floats, tau2s: Floats) -> tuple[Floats, Floats, Floats]:
    """Return probabilities (k, m), centres (k, m, d) and sds (k, m, 1) of the components of clients' posteriors."""
    _, weights, precision, gaps, _ = Data(y, v, "gaussian").weigh(p, mus, tau2s)
    kept = tau2s[:, None] * precision
    return weights, mus[:, None, :] + kept[:, :, None] * gaps, np.sqrt(kept * v)[:, :, None]
