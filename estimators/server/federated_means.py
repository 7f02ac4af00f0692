"""Means of many clients from their (private) messages: weights, variance components and personalisation in one fit.

Belongs here: the fitted object.  Its parts are in ``server_weights``, ``variance_components`` and ``strengths``; means with
other priors are in ``gaussian``; what clients do before they send is in ``mechanisms`` and ``dpsgd``.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np

from estimators.closed_forms.aggregation import precision_weights
from estimators.model import ClientModel
from estimators.numerics.arrays import ArrayLike, Floats, Numbers
from estimators.numerics.limits import split
from estimators.numerics.validation import choice, finite, fraction, nonnegative, paired, positive, single
from estimators.server.server_weights import server_weights
from estimators.server.strengths import Strengths, personalization_strengths, personalized_mse
from estimators.server.variance_components import Restricted, per_client, read_messages, variance_components

__all__ = ["FederatedMeans"]


class FederatedMeans(ClientModel):
    """Server average and personalised means from messages of known or partly known noise, without tuning.

    Model, in each coordinate: truth_i ~ N(centre, tau2), own estimate_i ~ N(truth_i, variance_i), message_i ~
    N(own estimate_i, noise_i), with a flat prior on the centre.  tau2 is estimated from all coordinates together, the
    average is weighted, and every client's message is pulled towards it with the strength of least expected error.
    Coordinates in which clients differ by very different amounts should be scaled alike or fitted one by one.

    With weights="precision" and strength="client" it is the posterior mean at the estimated tau2 (mrmtl:mmse,
    robusthdp:eq8:weights).  Other weights and strengths: mrmtl:thmE.5, mrmtl:thm6.3, fedhdp:levels:lambda, robusthdp:alg1.

    Parameters
    ----------
    weights : "precision" (inverse to tau2 + variance + noise), "uniform", "robust-hdp" (estimated from the messages alone,
        which must be long vectors), or an array (clients,) that adds to one, such as ``server_weights`` returns.
    strength : "client" (each client's best), "common" (the best one for all), or a number >= 0 or inf.
    tau2 : None to estimate it, or a number >= 0.

    Attributes
    ----------
    server_estimate_ : array (coordinates,) or float, the weighted average; server_sd_ : float, its standard error as an
        estimate of the centre, per coordinate.
    weights_ : array (clients,), they add to one.
    tau2_, tau2_sd_ : variance between clients and its standard error (0 if given).
    sigma2_, sigma2_sd_ : variance of one sample and its standard error; only if fitted with `n_samples`.
    variances_ : array (clients,) of the sampling variances used.
    strength_ : array (clients,), lam in (message + lam server_estimate) / (1 + lam); claim_ : id of its claim, ""
        if the strength was given.  An estimate
        tau2_ = 0 makes it inf: nothing says that clients differ, and all get the average.
    posterior_mean_ : array like the messages, the personalised means.
    posterior_sd_ : array like the messages, the root of risk_.
    risk_ : array (clients,), expected squared error per coordinate, with the uncertainty of the centre but not that of tau2.
    own_weight_ : array (clients,), weight of a client's own message in its personalised mean.
    home_strength_, home_risk_ : arrays (clients,), for clients that keep their noise-free own estimate (`personalize`).
    log_likelihood_ : log density of the messages at tau2_ and the best centre.  converged_, n_iter_ : of its search.

    >>> import numpy as np
    >>> gen = np.random.default_rng(0)
    >>> truth = gen.normal(size=(100, 5))
    >>> messages = truth + 0.5 * gen.normal(size=(100, 5)) + 2.0 * gen.normal(size=(100, 5))
    >>> model = FederatedMeans().fit(messages, variances=0.25, noises=4.0)
    >>> raw, personal = (np.mean((found - truth) ** 2) for found in (messages, model.posterior_mean_))
    >>> 0.5 < model.tau2_ < 1.5, bool(personal < raw / 4)
    (True, True)
    """

    tau2_: float
    tau2_sd_: float
    variances_: Floats
    sigma2_: float
    sigma2_sd_: float
    weights_: Floats
    strength_: Floats
    home_strength_: Floats
    risk_: Floats
    home_risk_: Floats
    claim_: str
    own_weight_: Floats
    server_estimate_: Numbers
    server_sd_: float
    arguments_: tuple[Floats, Floats, ArrayLike | None]

    def __init__(
        self,
        weights: Literal["precision", "uniform", "robust-hdp"] | ArrayLike = "precision",
        strength: Literal["client", "common"] | ArrayLike = "client",
        tau2: float | None = None,
    ) -> None:
        self.weights = weights
        self.strength = strength
        self.tau2 = tau2

    @paired
    def fit(
        self, messages: ArrayLike, variances: ArrayLike = 0.0, noises: ArrayLike = 0.0, n_samples: ArrayLike | None = None
    ) -> Self:
        """Estimate the variance components, the weights and the strengths from messages.

        Parameters
        ----------
        messages : array (clients, coordinates), or (clients,) for one number per client.
        variances : number or array (clients,) of variances >= 0 of a coordinate of the clients' own estimates.  At 0 the
            estimate that a client would send without privacy is what is to be found.
        noises : number or array (clients,) of variances >= 0 of the privacy noise in a coordinate of a message.
        n_samples : None, or array (clients,) of numbers > 0, not all equal: the sampling variances are then sigma2 / n with
            sigma2 estimated, and `variances` must be left out.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Naming the argument that is out of its domain; or the client whose message is not finite.
        """
        matrix = read_messages(messages)
        count = len(matrix)
        variances = per_client("variances", nonnegative("variances", variances), count)
        noises = per_client("noises", nonnegative("noises", noises), count)
        if n_samples is not None and (variances.any() or self.tau2 is not None):
            raise ValueError("n_samples is for estimating the sampling variances and tau2; leave out variances and tau2")
        self.estimate_components(matrix, variances, noises, n_samples)
        total = self.variances_ + noises
        chosen = self.choose_weights(matrix)
        lam, self.risk_, self.claim_ = self.choose_strengths(total, 0.0, chosen)
        self.strength_ = lam
        self.home_strength_, self.home_risk_, _ = self.choose_strengths(self.variances_, noises, chosen)
        if isinstance(chosen, str):
            chosen = precision_weights(total + self.tau2_ if chosen == "precision" else np.ones(count))
        self.weights_ = chosen
        self.server_sd_ = float(np.sqrt(np.sum(self.weights_**2 * (total + self.tau2_))))
        centre = np.einsum("i,ij->j", self.weights_, matrix)
        keep, pull = split(lam)
        self.own_weight_ = keep + pull * self.weights_
        personal = keep[:, None] * matrix + pull[:, None] * centre
        shape = np.shape(messages)
        self.server_estimate_ = centre if len(shape) == 2 else float(centre[0])
        self.posterior_mean_ = personal.reshape(shape)
        sd = np.sqrt(self.risk_)
        self.posterior_sd_ = np.broadcast_to(sd[:, None], shape) if len(shape) == 2 else sd
        self.arguments_, self.messages_ = (variances, noises, n_samples), matrix[:, 0]
        return self

    def estimate_components(self, matrix: Floats, variances: Floats, noises: Floats, n_samples: ArrayLike | None) -> None:
        """Set tau2_ and the sampling variances, with their errors, the log likelihood and the state of the search."""
        for name in ("sigma2_", "sigma2_sd_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        if self.tau2 is None:
            found = variance_components(matrix, known=variances + noises, n_samples=n_samples)
            self.tau2_, self.tau2_sd_ = found.estimates["tau2"], found.standard_errors["tau2"]
            self.log_likelihood_, self.converged_, self.n_iter_ = found.log_likelihood, found.converged, found.n_iter
            if n_samples is not None:
                self.sigma2_, self.sigma2_sd_ = found.estimates["sigma2"], found.standard_errors["sigma2"]
                variances = self.sigma2_ / positive("n_samples", n_samples)
        else:
            tau2 = nonnegative("tau2", self.tau2)
            if tau2.ndim:
                raise ValueError(f"tau2 must be a single number, got shape {tau2.shape}")
            self.tau2_, self.tau2_sd_ = float(tau2), 0.0
            known = variances + noises + self.tau2_
            if not known.all():
                raise ValueError("variances + noises + tau2 must be > 0 for every client")
            model = Restricted(matrix, np.ones((len(matrix), 1)), known)
            spread, _, squares, _ = model.at(np.zeros(1))
            size = model.coordinates * np.log(2 * np.pi * spread).sum()
            self.log_likelihood_ = float(-0.5 * (size + np.sum(squares / spread)))
            self.converged_, self.n_iter_ = True, 1
        self.variances_ = np.array(variances)

    def choose_weights(self, matrix: Floats) -> str | Floats:
        """Return "precision", "uniform" or an array."""
        if not isinstance(self.weights, str):
            return finite("weights", self.weights)
        choice("weights", self.weights, ("precision", "uniform", "robust-hdp"))
        if self.weights == "robust-hdp":
            return server_weights("robust-hdp", updates=np.ascontiguousarray(matrix.T)).weights
        return self.weights

    def choose_strengths(self, own: Floats, noises: Numbers, weights: str | Floats) -> Strengths:
        """Return strengths, errors and claim for own estimates of the given variances."""
        if isinstance(self.strength, str):
            choice("strength", self.strength, ("client", "common"))
            common = self.strength == "common"
            return personalization_strengths(own, self.tau2_, noises=noises, weights=weights, common=common)
        lam = nonnegative("strength", self.strength, infinite=True)
        if lam.ndim:
            raise ValueError(f"strength must be a single number, 'client' or 'common', got shape {lam.shape}")
        lam = np.broadcast_to(lam, own.shape)
        return Strengths(lam, personalized_mse(lam, own, self.tau2_, noises=noises, weights=weights), "")

    def personalize(self, own_estimates: ArrayLike) -> Floats:
        """Personalised means of clients that start from their own noise-free estimates, with `home_strength_`.

        This is what clients do with the server's average in Ditto and FedHDP; the errors are home_risk_.

        Parameters
        ----------
        own_estimates : array of the shape of the messages.
        """
        self.require_fit()
        own = finite("own_estimates", own_estimates)
        if own.shape != self.posterior_mean_.shape:
            raise ValueError(f"own_estimates must have the messages' shape {self.posterior_mean_.shape}, got {own.shape}")
        keep, pull = (part.reshape((-1,) + (1,) * (own.ndim - 1)) for part in split(self.home_strength_))
        return keep * own + pull * self.server_estimate_

    def posterior_cdf(self, t: ArrayLike, strict: bool = False) -> Floats:
        """Return P(truth <= t) for every entry of the messages, from the normal law of the error."""
        from scipy.special import ndtr

        self.require_fit()
        gap = finite("t", t) - self.posterior_mean_
        with np.errstate(divide="ignore", invalid="ignore"):
            sure = gap > 0 if strict else gap >= 0
            return np.where(self.posterior_sd_ > 0, ndtr(gap / self.posterior_sd_), sure)

    def posterior_quantile(self, q: float) -> Floats:
        """Return the q-quantile of the truth for every entry of the messages."""
        from scipy.special import ndtri

        self.require_fit()
        return self.posterior_mean_ + self.posterior_sd_ * ndtri(single(fraction, "q", q))

    def sample_posterior(self, generator: np.random.Generator, size: int) -> Floats:
        """Return draws of all true values (size, ...), from the normal laws of the errors, taken for independent."""
        self.require_fit()
        noise = generator.standard_normal((size, *self.posterior_mean_.shape))
        return self.posterior_mean_ + self.posterior_sd_ * noise

    def atoms(self) -> Floats:
        """Return the values that are known without error."""
        self.require_fit()
        return self.posterior_mean_[self.posterior_sd_ == 0]

    def own_numbers(self, arguments: tuple[Any, ...] | None = None) -> Floats:
        """Return the messages, of clients with one number each."""
        self.require_fit()
        if self.posterior_mean_.ndim > 1:
            return super().own_numbers()
        return self.messages_ if arguments is None else np.asarray(arguments[0])

    def predict(self) -> Any:
        """Return the server's average, which is the expected truth of a client without messages."""
        self.require_fit()
        return self.server_estimate_

    def prior_summary(self) -> dict[str, Any]:
        """Return the fitted prior as plain Python values."""
        self.require_fit()
        centre = np.atleast_1d(self.server_estimate_)
        summary = {"family": "normal", "sd": float(np.sqrt(self.tau2_)), "coordinates": centre.size}
        summary |= {"tau2": self.tau2_, "tau2_standard_error": self.tau2_sd_}
        if centre.size <= 20:
            summary["mean"] = centre.tolist()
        if hasattr(self, "sigma2_"):
            summary |= {"sigma2": self.sigma2_, "sigma2_standard_error": self.sigma2_sd_}
        return summary

    def draw(
        self, generator: np.random.Generator, truth: ArrayLike | None = None
    ) -> tuple[Floats, tuple[Floats, Floats, Floats, ArrayLike | None]]:
        """Return new truths from the fitted prior and arguments of `fit` with new messages about them."""
        self.require_fit()
        shape = self.posterior_mean_.shape
        variances, noises, n_samples = self.arguments_
        sd = np.sqrt(self.variances_ + noises).reshape((-1,) + (1,) * (len(shape) - 1))
        if truth is None:
            truth = self.server_estimate_ + np.sqrt(self.tau2_) * generator.standard_normal(shape)
        truth = self.read_truth(truth, shape)
        return truth, (truth + sd * generator.standard_normal(shape), variances, noises, n_samples)
