"""Claims of Ozkara, Girgis, Data and Diggavi, "A Generative Framework for Personalized Learning ...".

Model of Section 2.1: theta_i ~ N(mu, sigma2_theta I_d), client i has n samples N(theta_i, sigma2_x I_d) and
knows their mean; mu is unknown.  Section 3.1: Y_i = X_i theta_i + noise of variance sigma2_x, the prior is
known.

Belongs here: what that paper prints and how it is judged, one module per subject.
Does not belong here: engines.
"""

from theory.engine.paper import Paper

PAPER = Paper(
    key="generative",
    order=5,
    citation=(
        """Ozkara, Girgis, Data, Diggavi. A Generative Framework for Personalized Learning and Estimation: Theory,
        Algorithms, and Privacy"""
    ),
    package=__name__,
    modules=(
        "gaussian",
        "gaussian_proof",
        "james_stein",
        "gaussian_remarks",
        "bounds",
        "van_trees",
        "messages",
        "quantiser",
        "ranges",
        "bernoulli",
        "bernoulli_moments",
        "bernoulli_weight",
        "bernoulli_events",
        "bernoulli_bound",
        "bernoulli_private",
        "bernoulli_private_bound",
        "bernoulli_protocol",
        "bernoulli_gain",
        "mixture",
        "clustering",
        "priors",
        "responses",
        "norms",
        "regression",
        "regression_proof",
        "objectives",
        "steps",
        "mixture_steps",
        "marginal",
        "distillation",
        "adaped_objective",
        "adaped",
        "renyi",
        "privacy",
        "privacy_bounds",
        "bernoulli_experiments",
        "local_privacy",
        "experiments",
        "regression_experiment",
        "networks",
        "connections",
        "covariates",
        "variances",
        "spreads",
        "intervals",
        "shuffled",
        "private_border",
    ),
)
