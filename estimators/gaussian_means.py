"""Gaussian means with unequal known variances: a normal prior learnt from all clients, honest intervals for each.

Belongs here: the normal prior, whose variance is given, estimated, or integrated out.  Closed forms of risk and
James-Stein for equal variances are in ``gaussian``, a prior with a spike is in ``point_normal``, and how often
intervals hold the truth is measured in ``coverage``.
"""

import warnings

import numpy as np

from estimators import normal_mixture
from estimators.model import ClientModel
from estimators.validation import choice, finite, nonnegative

__all__ = ["GaussianMeans", "read_estimates"]

PRIORS = ("bayes", "marginal-likelihood", "reml", "moments", "fixed")
CHUNK = 4096  # clients whose mixtures are held in memory at once
BLOCK = 16384  # numbers in a work array: as many values of tau2 at a time as this over the number of clients
HUGE = 1e300  # stands for an infinite variance where the limit is the same
DEPTH = 22.0  # what is exp(-DEPTH) times as likely as the mode is left out


def read_estimates(estimates, variances):
    """Return the estimates and their variances in (0, inf] as equally long arrays, checked."""
    y = finite("estimates", estimates)
    if y.ndim != 1 or y.size == 0:
        raise ValueError(f"estimates must be 1-d with one entry per client, got shape {y.shape}")
    v = nonnegative("variances", variances, infinite=True)
    if v.shape not in ((), y.shape):
        raise ValueError(f"variances must be one number or match estimates {y.shape}, got shape {v.shape}")
    if v.min() == 0:
        raise ValueError(
            "variances must be > 0, got 0.0; what is known exactly needs no estimate: leave such clients out, "
            "or pool the variance if it is 0 because few values happened to agree"
        )
    return y, np.broadcast_to(v, y.shape)


class GaussianMeans(ClientModel):
    """Empirical Bayes for Gaussian means: learn N(mu, tau2) from all clients, then shrink each towards mu.

    Model: theta_i ~ N(mu, tau2) and estimate_i ~ N(theta_i, variance_i) with known variances, which may differ.  A
    client of infinite variance says nothing and gets what the others say.  Exact given the prior.  With equal
    variances the weights are those of generative:thm1:estimator.

    Parameters
    ----------
    prior : how tau2 is found.
        "bayes" does not settle on one tau2 but averages over all, under a flat prior on tau2 (Morris 1983, JASA 78:47), so
        that posteriors count what few clients leave unknown about it.  Use it unless you need one of the others; with
        many clients they agree.  Needs 4 clients of finite variance (3 if mu is given);
        "marginal-likelihood" maximises the likelihood of the estimates (R ``ebnm``'s "normal" with mode estimated,
        metafor's "ML");
        "reml" the restricted likelihood, which accounts for mu being estimated;
        "moments" solves sum of (estimate - mu)^2 / (tau2 + variance) = degrees of freedom (Paule and Mandel 1982);
        "fixed" takes `tau2` as given.
        All but "bayes" take the tau2 found for true, so with few clients their intervals are too short: over 10 clients
        of variances around 1 = tau2, 95 % intervals held the truth 82 (marginal-likelihood), 86 (reml) and 96 % (bayes)
        of the time; over 100 clients 94, 94 and 95 % (see ``coverage``).
    mu : number, or None to estimate it (then posteriors count its uncertainty, under a flat prior).
    tau2 : number >= 0 for prior="fixed", else None.

    Attributes
    ----------
    mu_, tau2_ : the prior's mean and variance; for "bayes" the posterior mean of mu and geometric mean of tau2.
    mu_sd_ : standard error of mu_ (0 if mu was given; inf for "bayes" with fewer than 6 clients, who do not bound it).
    posterior_mean_, posterior_sd_ : of each theta_i.
    weights_ : weight of each client's own estimate in its posterior mean, tau2 / (tau2 + variance_i); for "bayes" its
        posterior mean.
    log_likelihood_ : log density of the estimates of finite variance at (mu_, tau2_), whatever the `prior`.
    converged_ : bool; n_iter_ : number of passes over the data.

    >>> model = GaussianMeans("marginal-likelihood").fit([1.0, 2.0, 3.0, 6.0], variances=1.0)
    >>> round(float(model.mu_), 6), round(float(model.tau2_), 6), model.converged_
    (3.0, 2.5, True)
    >>> model.posterior_mean_.round(3).tolist()
    [1.571, 2.286, 3.0, 5.143]
    >>> [ends.round(2).tolist() for ends in GaussianMeans().fit([1.0, 2.0, 3.0, 6.0], variances=1.0).interval()]
    [[-0.81, 0.14, 1.09, 3.79], [3.08, 3.98, 4.91, 7.78]]
    """

    def __init__(self, prior="bayes", mu=None, tau2=None):
        self.prior = prior
        self.mu = mu
        self.tau2 = tau2

    def fit(self, estimates, variances):
        """Fit the prior and the posterior of every client.

        Parameters
        ----------
        estimates : array (m,) of the clients' own estimates, finite.
        variances : array (m,) or number, their sampling variances in squared units, > 0 or inf.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Naming the argument that is out of its domain.
        """
        choice("prior", self.prior, PRIORS)
        if (self.prior == "fixed") != (self.tau2 is not None):
            raise ValueError("tau2 must be given for prior='fixed' and left out otherwise, where it is estimated")
        y, v = read_estimates(estimates, variances)
        origin = 0.0 if self.mu is None else float(finite("mu", self.mu))
        known = v if v[-1] < np.inf and v.max() < np.inf else v[np.isfinite(v)]
        lost = self.mu is None
        needed = {"fixed": lost, "bayes": 3 + lost}.get(self.prior, 2)
        if known.size < needed:
            raise ValueError(
                f"estimates must hold at least {('', 'one', 'two', 'three', 'four')[needed]} clients of finite variance for "
                f"prior={self.prior!r}, and variances leave {known.size}; give mu, or tau2 with prior='fixed', if known"
            )
        used = y if known is v else y[np.isfinite(v)]
        if lost:
            origin = float(used.mean())
        likelihood = MarginalLikelihood(used - origin, known, mu_known=not lost, prior=self.prior)
        shares = np.ones(1)
        if self.prior == "fixed":
            tau2s, self.converged_ = nonnegative("tau2", self.tau2).reshape(1), True
        elif self.prior == "bayes":
            tau2s, shares, self.converged_ = likelihood.integrate()
        else:
            tau2, self.converged_ = likelihood.maximise()
            tau2s = np.array([tau2])
        if not self.converged_:
            warnings.warn("the search for tau2 did not converge; do not use the fit", RuntimeWarning, stacklevel=2)
        self.estimates_, self.variances_ = y.copy(), v.copy()
        self.set_posterior(likelihood, origin, tau2s, shares)
        return self

    def set_posterior(self, likelihood, origin, tau2s, shares):
        """Set the attributes that follow from prior variances `tau2s` of posterior probabilities `shares`."""
        mus, mu_variances = likelihood.centre(tau2s)
        self.nodes_ = tau2s, origin + mus, mu_variances, shares
        averaged = shares.size > 1
        self.tau2_ = float(np.exp(dot(shares, np.log(tau2s))) if averaged else tau2s[0])
        mu = dot(shares, mus)
        self.mu_ = float(origin + mu)
        # The tail of tau2 has a mean only with 6 clients or more.
        bounded = not averaged or likelihood.mu_known or likelihood.size > 5
        self.mu_sd_ = float(np.sqrt(dot(shares, mu_variances + (mus - mu) ** 2))) if bounded else np.inf
        v = self.variances_[:1] if likelihood.equal and self.variances_.max() < np.inf else self.variances_
        y = self.estimates_ - origin
        # Given tau2 the posterior mean is w y + c.  Averages over tau2 are of differences to the likeliest one.
        best = int(np.argmax(shares))
        w0, c0, variance = given(tau2s[best], mus[best], mu_variances[best], v)
        if averaged:
            w1, c1, ww, wc, cc, variance = np.zeros((6, v.size))
            for tau2, mu, mu_variance, share in zip(tau2s, mus, mu_variances, shares, strict=True):
                w, c, within = given(tau2, mu, mu_variance, v)
                w -= w0
                c -= c0
                variance += share * within
                w1 += share * w
                c1 += share * c
                ww += share * w**2
                wc += share * w * c
                cc += share * c**2
            w0, c0 = w0 + w1, c0 + c1
            variance = variance + np.maximum(y**2 * (ww - w1**2) + 2 * y * (wc - w1 * c1) + (cc - c1**2), 0.0)
        self.weights_ = np.broadcast_to(w0, y.shape)
        self.posterior_mean_ = origin + (w0 * y + c0)
        self.posterior_sd_ = np.broadcast_to(np.sqrt(variance), y.shape)
        self.log_likelihood_ = float(likelihood.objective(np.array([self.tau2_]), self.mu_ - origin, restricted=False)[0])
        self.n_iter_ = likelihood.passes

    def prior_summary(self):
        """Return the fitted prior as plain Python values."""
        self.require_fit()
        return {
            "family": "normal",
            "found_by": self.prior,
            "mean": self.mu_,
            "mean_standard_error": self.mu_sd_,
            "sd": float(np.sqrt(self.tau2_)),
            "variance": self.tau2_,
        }

    def mixtures(self):
        """Yield slices of clients with the weights, means and sds of their posteriors, mixtures of normals."""
        self.require_fit()
        tau2s, mus, mu_variances, shares = self.nodes_
        for start in range(0, self.estimates_.size, CHUNK):
            rows = slice(start, start + CHUNK)
            w, c, variance = given(tau2s, mus, mu_variances, self.variances_[rows, None])
            yield rows, shares, w * self.estimates_[rows, None] + c, np.sqrt(variance)

    def posterior_cdf(self, t, strict=False):
        """Return P(theta_i <= t), or P(theta_i < t) if `strict`, given the data, one entry per client."""
        t = finite("t", t)
        return np.concatenate([normal_mixture.cdf(t, *mixture, strict) for _, *mixture in self.mixtures()])

    def posterior_quantile(self, q):
        """Return the smallest t with P(theta_i <= t) >= q given the data, one entry per client."""
        return np.concatenate([normal_mixture.quantile(q, *mixture) for _, *mixture in self.mixtures()])

    def draw(self, generator):
        """Return (truth, (estimates, variances)) from N(mu_, tau2_) with the design that was fitted.

        A client of infinite variance gets its truth as estimate, which `fit` does not look at.
        """
        self.require_fit()
        noise = np.sqrt(np.where(np.isinf(self.variances_), 0.0, self.variances_))
        truth = self.mu_ + np.sqrt(self.tau2_) * generator.standard_normal(noise.size)
        return truth, (truth + noise * generator.standard_normal(noise.size), self.variances_)


def given(tau2, mu, mu_variance, v):
    """Return own weight w, common part c and variance of posteriors N(w y + c, .) given tau2, mu averaged out."""
    v = np.minimum(v, HUGE)
    precision = 1 / (v + tau2)
    w, rest = tau2 * precision, v * precision
    return w, rest * mu, tau2 * rest + mu_variance * rest**2


def dot(x, y):
    """Return the inner product without BLAS, whose threads stall on a busy machine and change bits."""
    return float(np.einsum("i,i->", x, y))


class MarginalLikelihood:
    """Likelihood of y_i ~ N(mu, tau2 + v_i) as a function of tau2, with mu known to be 0 or profiled out.

    Methods take an array of values tau2 and work on as many at a time as fit into `BLOCK` numbers.  Clients of equal
    variance are one client, `copies` times, and their sum of squares `within`.
    """

    def __init__(self, y, v, mu_known, prior):
        self.size, self.mu_known, self.prior = y.size, mu_known, prior
        self.restricted = prior in ("reml", "bayes") and not mu_known
        self.spread = 0.0 if y.size == 0 else np.abs(y).max() if mu_known else np.ptp(y)
        self.equal = y.size > 0 and v.min() == v.max()
        self.copies, self.within = 1, 0.0
        if self.equal:
            mean = y.mean()
            self.copies, self.within = y.size, float(np.sum((y - mean) ** 2))
            y, v = mean.reshape(1), v[:1]
        self.y, self.v = y, v
        self.passes = 0
        self.work = np.empty((3, max(1, BLOCK // max(y.size, 1)), y.size))  # fresh arrays would double the time

    def each(self, function, tau2s):
        """Return function(precisions, their sums, best mu, residuals, scratch) at each of `tau2s`, block by block."""
        self.passes += tau2s.size
        found = []
        for start in range(0, tau2s.size, self.work.shape[1]):
            part = tau2s[start : start + self.work.shape[1], None]
            precision, residual, scratch = self.work[:, : part.size]
            np.reciprocal(np.add(self.v, part, out=precision), out=precision)
            total = precision.sum(axis=1)
            mu = np.zeros(part.size) if self.mu_known else np.einsum("ki,i->k", precision, self.y) / total
            np.subtract(self.y, mu[:, None], out=residual)
            found.append(function(precision, self.copies * total, mu, residual, scratch))
        return np.concatenate(found, axis=-1)

    def centre(self, tau2s):
        """Return the best mu at each of `tau2s` and its variance."""

        def function(precision, total, mu, residual, scratch):
            return np.array([mu, np.zeros(mu.size) if self.mu_known else 1 / total])

        return self.each(function, tau2s)

    def score(self, tau2s):
        """Return what falls through 0 at the estimate: twice a derivative, or the moment condition."""

        def function(precision, total, mu, residual, scratch):
            np.multiply(precision, residual, out=scratch)
            first = precision[:, 0] if self.equal else 0.0
            if self.prior == "moments":
                squares = self.copies * np.einsum("ki,ki->k", scratch, residual) + self.within * first
                return squares - (self.size - (not self.mu_known))
            score = self.copies * np.einsum("ki,ki->k", scratch, scratch) + self.within * first**2 - total
            if self.restricted:
                score += self.copies * np.einsum("ki,ki->k", precision, precision) / total
            return score

        return self.each(function, tau2s)

    def objective(self, tau2s, mu=None, restricted=None):
        """Return the log density of y, at the best mu or the one given; for REML and averages the restricted one."""
        restricted = self.restricted if restricted is None else restricted

        def function(precision, total, best, residual, scratch):
            if mu is not None:
                np.subtract(self.y, mu, out=residual)
            squares = np.einsum("ki,ki->k", np.multiply(precision, residual, out=scratch), residual)
            squares = self.copies * squares + (self.within * precision[:, 0] if self.equal else 0.0)
            logs = self.copies * np.log(precision, out=scratch).sum(axis=1)
            density = -0.5 * (self.size * np.log(2 * np.pi) - logs + squares)
            return density - 0.5 * np.log(total) if restricted else density

        return self.each(function, tau2s)

    def maximise(self):
        """Return the maximiser tau2 >= 0 and whether the search converged; equal variances have a closed form."""
        if self.equal:
            squares = self.within + (self.copies * float(self.y[0]) ** 2 if self.mu_known else 0.0)
            freedom = self.size - (self.prior != "marginal-likelihood" and not self.mu_known)
            return max(0.0, squares / freedom - float(self.v[0])), True
        candidates, converged = self.roots(self.score, 0.0)
        best = np.argmax(self.objective(candidates)) if candidates.size > 1 else 0
        return float(candidates[best]), converged

    def roots(self, score, low):
        """Return where `score` falls through 0 (and `low` if it starts below), and whether they were all found.

        They are bracketed on a geometric grid from `low` to where the score is negative for good.  A term of the score
        changes over more than a decade of tau2, so steps of a factor 4 separate several maxima.
        """
        from scipy.optimize import brentq

        highest = max(self.spread**2, self.v.max())
        step = self.v.min() / 4
        steps = int(np.ceil(np.log(highest / step) / np.log(4))) + 1
        grid = np.concatenate([[low], step * 4.0 ** np.arange(steps)])
        scores = score(grid)
        while scores[-1] > 0:
            grid = np.append(grid, 4 * grid[-1])
            scores = np.append(scores, score(grid[-1:]))
        found, converged = ([low] if scores[0] <= 0 else []), True
        for k in np.flatnonzero((scores[:-1] > 0) & (scores[1:] <= 0)):
            root, details = brentq(
                lambda tau2: score(np.array([tau2]))[0],
                grid[k],
                grid[k + 1],
                xtol=1e-300,
                rtol=1e-13,
                maxiter=500,
                full_output=True,
                disp=False,
            )
            found.append(root)
            converged = converged and details.converged
        return np.array(found), converged

    def log_posterior(self, w):
        """Return the log density of w = log tau2 given y, up to a constant, under a flat prior on tau2."""
        return self.objective(np.exp(w)) + w

    def integrate(self):
        """Return values of tau2 and their posterior probabilities for averages over it, and whether they are enough.

        Trapezoids in u, where log tau2 = mode + 4 sinh(u / 4): points are evenly spaced near the mode and thin out in
        the tails.  Such sums converge exponentially fast for smooth integrands, so when every other point gives the
        same up to 3e-5, all of them are exact to 1e-9; until then their number is doubled.
        """
        # At `low` twice the derivative in log tau2 is positive, whatever the residuals are.
        low = min(1.0, 1 / (2 * self.size)) * self.v.min() / 4
        modes, converged = self.roots(lambda tau2s: tau2s * self.score(tau2s) + 2, low)
        modes = np.log(modes)
        heights = self.log_posterior(modes)
        top, mode = heights.max(), modes[np.argmax(heights)]
        ends = [4 * np.arcsinh((self.end(*way, top - DEPTH) - mode) / 4) for way in ((modes.min(), -1), (modes.max(), 1))]
        pieces = 24
        grid = np.linspace(*ends, pieces + 1)
        height = self.log_posterior(mode + 4 * np.sinh(grid / 4))
        while True:
            w = mode + 4 * np.sinh(grid / 4)
            mass = np.exp(height - top) * np.cosh(grid / 4)
            total, mean, sd = summary(w, mass)
            half, mean_of_half, _ = summary(w[::2], mass[::2])
            enough = abs(2 * half / total - 1) < 3e-5 and abs(mean_of_half - mean) < 3e-5 * sd
            if enough or pieces > 5000:
                break
            pieces *= 2
            finer = np.linspace(*ends, pieces + 1)
            between = self.log_posterior(mode + 4 * np.sinh(finer[1::2] / 4))
            grid, height = finer, np.insert(between, np.arange(height.size), height)
        kept = mass > 1e-12 * total
        return np.exp(w[kept]), mass[kept] / mass[kept].sum(), bool(converged and enough)

    def end(self, start, direction, height):
        """Return a place on the given side of `start` where the log posterior has fallen below `height`."""
        steps = 2.0**-8 * 1.3 ** np.arange(4)
        while True:
            below = self.log_posterior(start + direction * steps) < height
            if below.any():
                return start + direction * steps[np.argmax(below)]
            steps *= 1.3**4


def summary(w, mass):
    """Return the total of `mass`, and the mean and standard deviation of `w` under it."""
    total = mass.sum()
    mean = dot(mass, w) / total
    return total, mean, np.sqrt(dot(mass, (w - mean) ** 2) / total)
