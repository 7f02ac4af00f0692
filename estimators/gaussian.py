"""Gaussian means of many clients: shrinkage with a known prior, James-Stein, and empirical Bayes.

Model: theta_i ~ N(mu, sigma2_theta) (called tau2 in `GaussianMeans`), and a client's estimate of theta_i is
its sample mean, N(theta_i, sigma2_x / n).  Closed forms of risk for equal clients, and a fit for unequal
ones.  Formulas in which messages carry privacy noise of several levels are in ``aggregation`` and
``personalization``.
"""

import numpy as np

from estimators.limits import share
from estimators.validation import choice, count, finite, index, nonnegative, positive

__all__ = [
    "GaussianMeans",
    "conditional_bias",
    "conditional_risk",
    "from_samples",
    "james_stein",
    "james_stein_risk",
    "local_risk",
    "risk",
    "shrinkage_factor",
]


def read_variances(sigma2_theta, sigma2_x, n, sigma2_q=0.0, m=None):
    """Return the variance between clients as the server sees it and that of a sample mean, both checked."""
    sigma2_theta = nonnegative("sigma2_theta", sigma2_theta, infinite=True)
    sigma2_q = nonnegative("sigma2_q", sigma2_q)
    if (sigma2_q > 0).any():
        if m is None:
            raise ValueError("m, the number of clients, is needed when sigma2_q > 0")
        sigma2_theta = sigma2_theta + sigma2_q / (count("m", m, 2) - 1)
    return sigma2_theta, local_risk(sigma2_x, n)


def shrinkage_factor(sigma2_theta, sigma2_x, n, sigma2_q=0.0, m=None):
    """Best weight `a` on a client's own mean in a x_bar_i + (1 - a) average of the clients' messages.

    a = t / (t + sigma2_x / n), with t = sigma2_theta + sigma2_q / (m - 1).  Exact.
    Claims: generative:thm1:estimator, generative:thm2:a.

    Parameters
    ----------
    sigma2_theta : variance >= 0 or inf between clients.
    sigma2_x : variance >= 0 of one sample; n : whole number >= 1 of samples per client.
    sigma2_q : variance >= 0 of the unbiased quantiser or privacy mechanism on each message.
    m : whole number >= 2 of clients; needed only when sigma2_q > 0.

    Raises
    ------
    ValueError
        Naming the argument that is out of its domain.

    >>> float(shrinkage_factor(1.0, 3.0, n=1)), float(shrinkage_factor(1.0, 3.0, n=1, sigma2_q=8.0, m=5))
    (0.25, 0.5)
    """
    return share(*read_variances(sigma2_theta, sigma2_x, n, sigma2_q, m))


def risk(sigma2_theta, sigma2_x, n, m, sigma2_q=0.0, d=1):
    """Mean squared error of a client at the best `shrinkage_factor`, d sigma2_x / n ((1 - a) / m + a).

    Exact where the paper prints an upper bound.  Claims: generative:thm1:mse, generative:thm2:mse.

    Parameters
    ----------
    m : whole number >= 1 of clients (>= 2 if sigma2_q > 0); d : whole number >= 1 of coordinates.
    sigma2_theta, sigma2_x, n, sigma2_q : see `shrinkage_factor`; variances per coordinate.

    >>> float(risk(1.0, 3.0, n=1, m=3))
    1.5
    """
    between, within = read_variances(sigma2_theta, sigma2_x, n, sigma2_q, m)
    return count("d", d) * within * (share(between, within) + share(within, between) / count("m", m))


def local_risk(sigma2_x, n, d=1):
    """Mean squared error of a client's own sample mean, d sigma2_x / n.

    >>> float(local_risk(3.0, n=2))
    1.5
    """
    return count("d", d) * nonnegative("sigma2_x", sigma2_x) / count("n", n)


def read_theta(theta, i):
    """Return the array of true values, one row per client, and the position of client i."""
    theta = finite("theta", theta)
    if theta.ndim not in (1, 2):
        raise ValueError(f"theta must have shape (clients,) or (clients, coordinates), got {theta.shape}")
    return theta, index("i", i, 0, len(theta) - 1)


def conditional_bias(theta, i, sigma2_theta, sigma2_x, n):
    """Bias of client i's shrunk estimate given all true values, (1 - a)(mean of theta - theta_i).

    Zero on average over the prior, not client by client.  Claim: generative:thm1:unbiased.

    Parameters
    ----------
    theta : array (m,) or (m, d) of true values; i : int in 0..m-1.
    sigma2_theta, sigma2_x, n : numbers, see `shrinkage_factor`.

    >>> float(conditional_bias([0.0, 4.0], 0, sigma2_theta=1.0, sigma2_x=1.0, n=1))
    1.0
    """
    theta, i = read_theta(theta, i)
    between, within = read_variances(sigma2_theta, sigma2_x, n)
    return share(within, between) * np.mean(theta - theta[i], axis=0)


def conditional_risk(theta, i, sigma2_theta, sigma2_x, n):
    """Mean squared error of client i's shrunk estimate when all true values `theta` are given.

    a^2 s + (1 - a^2) s / m per coordinate plus the squared bias, with s = sigma2_x / n.
    Averaged over the prior it is `risk`.  Parameters as in `conditional_bias`.

    >>> float(conditional_risk([0.0, 4.0], 0, sigma2_theta=1.0, sigma2_x=1.0, n=1))
    1.625
    """
    bias = conditional_bias(theta, i, sigma2_theta, sigma2_x, n)
    between, within = read_variances(sigma2_theta, sigma2_x, n)
    a = share(between, within)
    variance = within * (a**2 + share(within, between) * (1 + a) / len(np.asarray(theta)))
    return np.size(bias) * variance + np.sum(bias**2)


def james_stein_risk(m, sigma2_theta, sigma2_x, n):
    """Mean squared error per client of James-Stein shrinkage to the grand mean, s (a + 3 (1 - a) / m).

    Averaged over the prior, for the plain (not positive-part) estimator with known s = sigma2_x / n; exact
    for m >= 4.  Not knowing the prior's variance costs 2 s (1 - a) / m over `risk`.  Claim:
    generative:thm1:james-stein.

    >>> float(james_stein_risk(6, sigma2_theta=1.0, sigma2_x=3.0, n=1))
    1.875
    """
    between, within = read_variances(sigma2_theta, sigma2_x, n)
    return within * (share(between, within) + 3 * share(within, between) / count("m", m, 4))


def james_stein(x, variance, toward="mean", positive_part=True):
    """James-Stein estimate of the means of which `x` holds one observation each, of a common known variance.

    Shrinks by 1 - (m - 3) variance / S to the grand mean, where S is the sum of squared distances to it, or
    by 1 - (m - 2) variance / S to a fixed value.

    Parameters
    ----------
    x : array (..., m), clients on the last axis; m >= 4 to shrink to the mean, m >= 3 to a value.
    variance : number >= 0, or array broadcasting against x[..., :1].
    toward : "mean" or a number.
    positive_part : bool; never shrink past the target (this always lowers the risk).

    Returns
    -------
    array like `x`.

    >>> james_stein([1.0, 2.0, 3.0, 6.0], variance=2.0).round(6).tolist()
    [1.285714, 2.142857, 3.0, 5.571429]
    """
    x = finite("x", x)
    fixed = not isinstance(toward, str)
    lost = 2 if fixed else 3
    if x.ndim == 0 or x.shape[-1] <= lost:
        raise ValueError(f"x must hold at least {lost + 1} clients on its last axis to shrink toward {toward!r}")
    if not fixed:
        choice("toward", toward, ("mean",))
    target = finite("toward", toward) if fixed else x.mean(axis=-1, keepdims=True)
    deviation = x - target
    total = np.sum(deviation**2, axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        factor = 1 - (x.shape[-1] - lost) * nonnegative("variance", variance) / total
        if positive_part:
            factor = np.maximum(factor, 0.0)
        return target + np.where(deviation == 0, 0.0, factor * deviation)


def from_samples(samples):
    """Turn raw samples into client means and their variances, the pooled variance over each n_i.

    Parameters
    ----------
    samples : list of 1-d arrays, one per client, of any lengths >= 1, at least one of them >= 2.

    Returns
    -------
    estimates, variances : arrays with one entry per client, ready for ``GaussianMeans.fit``.

    >>> estimates, variances = from_samples([[1.0, 3.0], [5.0]])
    >>> estimates.tolist(), variances.tolist()
    ([2.0, 5.0], [1.0, 2.0])
    """
    arrays = [finite(f"samples[{i}]", sample) for i, sample in enumerate(samples)]
    if not arrays:
        raise ValueError("samples is empty; give one array per client")
    for i, array in enumerate(arrays):
        if array.ndim != 1 or array.size == 0:
            raise ValueError(f"samples[{i}] must be a 1-d array with at least one value, got shape {array.shape}")
    counts = np.array([array.size for array in arrays])
    freedom = int(np.sum(counts - 1))
    if freedom == 0:
        raise ValueError(
            "samples has one value per client, which says nothing about the variance within clients; "
            "give the variances and call GaussianMeans.fit(estimates, variances)"
        )
    estimates = np.array([array.mean() for array in arrays])
    squares = sum(np.sum((array - mean) ** 2) for array, mean in zip(arrays, estimates, strict=True))
    return estimates, squares / freedom / counts


class GaussianMeans:
    """Empirical Bayes for Gaussian means: learn N(mu, tau2) from all clients, then shrink each towards mu.

    Model: theta_i ~ N(mu, tau2) and estimate_i ~ N(theta_i, variance_i) with known variances > 0, which may
    differ.

    Parameters
    ----------
    prior : how tau2 is found.
        "marginal-likelihood" maximises the likelihood of the estimates (R ``ebnm``'s "normal" with mode
        estimated);
        "reml" the restricted likelihood, which accounts for mu being estimated;
        "moments" solves sum of (estimate - mu)^2 / (tau2 + variance) = degrees of freedom (Paule and
        Mandel, 1982);
        "fixed" takes `tau2` as given.
    mu : number, or None to estimate it by weighted least squares.
    tau2 : number >= 0 for prior="fixed", else None.

    Attributes
    ----------
    mu_, tau2_ : the prior's mean and variance.
    mu_sd_ : standard error of mu_ (0 if mu was given).
    posterior_mean_, posterior_sd_ : of each theta_i.  The sd includes the uncertainty of mu (under a flat
        prior on it) but not that of tau2; posterior_sd_given_mu_ leaves both out.
    weights_ : weight of each client's own estimate in its posterior mean, tau2 / (tau2 + variance_i).
    log_likelihood_ : log density of the estimates at (mu_, tau2_), whatever the `prior`.
    converged_ : bool; n_iter_ : number of passes over the data.

    >>> model = GaussianMeans().fit([1.0, 2.0, 3.0, 6.0], variances=[1.0, 1.0, 1.0, 1.0])
    >>> round(float(model.mu_), 6), round(float(model.tau2_), 6), model.converged_
    (3.0, 2.5, True)
    >>> model.posterior_mean_.round(3).tolist()
    [1.571, 2.286, 3.0, 5.143]
    """

    def __init__(self, prior="marginal-likelihood", mu=None, tau2=None):
        self.prior = prior
        self.mu = mu
        self.tau2 = tau2

    def get_params(self, deep=True):
        """Return the parameters of the constructor; `deep` is scikit-learn's and changes nothing here."""
        return {"prior": self.prior, "mu": self.mu, "tau2": self.tau2}

    def set_params(self, **params):
        """Set parameters of the constructor and return self."""
        for name, value in params.items():
            if name not in self.get_params():
                raise ValueError(f"{name} is no parameter of GaussianMeans; it has {list(self.get_params())}")
            setattr(self, name, value)
        return self

    def fit(self, estimates, variances):
        """Fit the prior and the posterior of every client.

        Parameters
        ----------
        estimates : array (m,) of the clients' own estimates; m >= 2 unless prior="fixed".
        variances : array (m,) or number > 0, their sampling variances in squared units.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Naming the argument that is out of its domain.
        """
        choice("prior", self.prior, ("marginal-likelihood", "reml", "moments", "fixed"))
        if (self.prior == "fixed") != (self.tau2 is not None):
            raise ValueError("tau2 must be given for prior='fixed' and left out otherwise, where it is estimated")
        y = finite("estimates", estimates)
        if y.ndim != 1 or y.size < (1 if self.prior == "fixed" else 2):
            raise ValueError(f"estimates must be 1-d with at least two clients to learn from, got shape {y.shape}")
        v = positive("variances", variances)
        if v.shape not in ((), y.shape):
            raise ValueError(f"variances must be one number or match estimates {y.shape}, got shape {v.shape}")
        v = np.broadcast_to(v, y.shape)
        origin = y.mean() if self.mu is None else float(finite("mu", self.mu))
        y = y - origin  # from here on the prior's mean is near 0, which keeps the digits of y - mu
        likelihood = MarginalLikelihood(y, v, mu_known=self.mu is not None, prior=self.prior)
        if self.prior == "fixed":
            self.tau2_, self.converged_ = float(nonnegative("tau2", self.tau2)), True
        else:
            self.tau2_, self.converged_ = likelihood.maximise()
        precision, mu, residual = likelihood.at(self.tau2_)
        self.n_iter_ = likelihood.passes
        self.mu_ = origin + mu
        self.mu_sd_ = 0.0 if self.mu is not None else 1 / np.sqrt(precision.sum())
        self.weights_ = self.tau2_ * precision
        pulled = v * precision
        self.posterior_mean_ = origin + (self.weights_ * y + pulled * mu)
        given_mu = self.tau2_ * pulled
        self.posterior_sd_given_mu_ = np.sqrt(given_mu)
        self.posterior_sd_ = np.sqrt(given_mu + (pulled * self.mu_sd_) ** 2)
        self.log_likelihood_ = likelihood.log_density(precision, residual)
        return self


def dot(x, y):
    """Return the inner product without BLAS, whose threads stall on a busy machine and change bits."""
    return float(np.einsum("i,i->", x, y))


class MarginalLikelihood:
    """Likelihood of y_i ~ N(mu, tau2 + v_i) as a function of tau2, with mu known to be 0 or profiled out."""

    def __init__(self, y, v, mu_known, prior):
        self.y, self.v, self.mu_known, self.prior = y, v, mu_known, prior
        self.passes = 0
        self.precision, self.residual, self.scaled = np.empty((3, y.size))  # fresh arrays would double the time

    def at(self, tau2):
        """Return precisions, the best mu and residuals at `tau2`, in arrays that the next call reuses."""
        self.passes += 1
        precision = np.reciprocal(np.add(self.v, tau2, out=self.precision), out=self.precision)
        mu = 0.0 if self.mu_known else dot(precision, self.y) / precision.sum()
        return precision, mu, np.subtract(self.y, mu, out=self.residual)

    def score(self, tau2):
        """Return what falls through 0 at the estimate: twice a derivative, or the moment condition."""
        precision, _, residual = self.at(tau2)
        scaled = np.multiply(precision, residual, out=self.scaled)
        if self.prior == "moments":
            return dot(scaled, residual) - (self.y.size - (not self.mu_known))
        score = dot(scaled, scaled) - precision.sum()
        if self.prior == "reml" and not self.mu_known:
            score += dot(precision, precision) / precision.sum()
        return float(score)

    def log_density(self, precision, residual):
        """Return the log density of y."""
        squares = dot(precision * residual, residual)
        return float(-0.5 * (self.y.size * np.log(2 * np.pi) - np.log(precision).sum() + squares))

    def objective(self, tau2):
        """Return the log likelihood that `score` differentiates (restricted for REML)."""
        precision, _, residual = self.at(tau2)
        restriction = 0.5 * np.log(precision.sum()) if self.prior == "reml" and not self.mu_known else 0.0
        return self.log_density(precision, residual) - restriction

    def maximise(self):
        """Return the maximiser tau2 >= 0 and whether the search converged.

        Equal variances have a closed form.  Unequal ones can give several local maxima, which are bracketed
        on a geometric grid from 0 to where the score is negative for good, refined one by one, and
        compared.  A term of the score changes over more than a decade of tau2, so steps of a factor 4
        separate the maxima.
        """
        from scipy.optimize import brentq

        if self.v.min() == self.v.max():
            residual = self.at(0.0)[2]
            freedom = self.y.size - (self.prior != "marginal-likelihood" and not self.mu_known)
            return max(0.0, dot(residual, residual) / freedom - float(self.v[0])), True
        spread = np.abs(self.y).max() if self.mu_known else np.ptp(self.y)
        highest = max(spread**2, self.v.max())
        step = self.v.min() / 4
        low, score_low = 0.0, self.score(0.0)
        candidates, converged = ([0.0] if score_low <= 0 else []), True
        while low < highest or score_low > 0:
            high = max(4 * low, step)
            score_high = self.score(high)
            if score_low > 0 >= score_high:
                root, details = brentq(
                    self.score, low, high, xtol=1e-300, rtol=1e-13, maxiter=500, full_output=True, disp=False
                )
                candidates.append(root)
                converged = converged and details.converged
            low, score_low = high, score_high
        return (candidates[0] if len(candidates) == 1 else max(candidates, key=self.objective)), converged
