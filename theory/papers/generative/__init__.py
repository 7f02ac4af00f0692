"""Claims of Ozkara, Girgis, Data and Diggavi, "A Generative Framework for Personalized Learning ...".

Model of Section 2.1: theta_i ~ N(mu, sigma2_theta I_d), client i has n samples N(theta_i, sigma2_x I_d) and
knows their mean; mu is unknown.  Section 3.1: Y_i = X_i theta_i + noise of variance sigma2_x, the prior is
known.

Belongs here: what that paper prints and how it is judged, one module per subject.
Does not belong here: engines.
"""

from theory.papers.generative import (  # isort: skip (the paper's order)
    gaussian,
    bounds,
    messages,
    quantiser,
    bernoulli,
    bernoulli_moments,
    bernoulli_bound,
    bernoulli_private,
    bernoulli_protocol,
    bernoulli_gain,
    mixture,
    priors,
    norms,
    regression,
    objectives,
    steps,
    mixture_steps,
    marginal,
    distillation,
    adaped,
    privacy,
    bernoulli_experiments,
    experiments,
    local_privacy,
)

__all__ = [
    "adaped",
    "bernoulli",
    "bernoulli_bound",
    "bernoulli_experiments",
    "bernoulli_gain",
    "bernoulli_moments",
    "bernoulli_private",
    "bernoulli_protocol",
    "bounds",
    "distillation",
    "experiments",
    "gaussian",
    "local_privacy",
    "marginal",
    "messages",
    "mixture",
    "mixture_steps",
    "norms",
    "objectives",
    "priors",
    "privacy",
    "quantiser",
    "regression",
    "steps",
]
