"""What the paper says in Sections 1 and 2, line by line, and which claims judge it.

Belongs here: the items of those sections. Does not belong here: the other sections (inventory.py joins them), claims.
"""

from theory.engine.inventory import Item

ESTIMATION = (
    # --- Section 1 --------------------------------------------------------------------------------------------------------
    Item(lines="1-5", place="Title", what="title and authors", reason="furniture"),
    Item(
        lines="7",
        place="Abstract",
        what="AdaPeD numerically outperforms several known algorithms",
        reason="training",
    ),
    Item(lines="7", place="Abstract", what="what the paper does: framework, estimation, privacy", reason="prose"),
    Item(
        lines="9-11",
        place="Section 1",
        what="a single global model might perform poorly for individual clients",
        reason="unquantified",
    ),
    Item(
        lines="13",
        place="Section 1, footnote 1",
        what="Stein's estimate uniformly improves the error averaged over the population, against a single local sample",
        claims=("generative:intro:stein", "generative:thm1:james-stein"),
    ),
    Item(
        lines="13",
        place="Section 1",
        what="Lord's Bernoulli variables, and error bounds for estimates of the population",
        reason="cited",
    ),
    Item(
        lines="15",
        place="Section 1, footnote 2",
        what="empirical Bayes is not studied for the distributed case",
        reason="prose",
    ),
    Item(
        lines="17",
        place="Section 1",
        what="population, local parameters, local data; collaboration amplifies local samples",
        reason="unquantified",
    ),
    Item(
        lines="19",
        place="Section 1",
        what="a Gaussian population gives l2 regularisation, others l1, mixtures, distillation",
        claims=("generative:eq12:gauss", "generative:eq12:laplace", "generative:eq12:mixture"),
    ),
    Item(
        lines="21-29",
        place="Section 1, contributions",
        what="regimes where collaboration helps are identified",
        reason="prose",
    ),
    Item(
        lines="31",
        place="Section 1, contributions",
        what="AdaPeD performs better than several state-of-the-art algorithms",
        reason="training",
    ),
    Item(
        lines="33-47",
        place="Section 1, related work and organisation",
        what="other papers, and what follows where",
        reason="prose",
    ),
    # --- Section 2: the setting -------------------------------------------------------------------------------------------
    Item(
        lines="49-53",
        place="Section 2",
        what="population P(Gamma), data of clients, messages, aggregate",
        reason="definition",
    ),
    Item(lines="55-59", place="Section 2, (1)", what="Bayesian risk of an estimator", reason="definition"),
    Item(lines="61", place="Section 2", what="three models are studied", reason="prose"),
    # --- Section 2.1 ------------------------------------------------------------------------------------------------------
    Item(lines="63-65", place="Section 2.1", what="the Gaussian model", reason="definition"),
    Item(
        lines="65",
        place="Section 2.1",
        what="for a single local sample the estimator is identical to James and Stein's",
        claims=("generative:thm1:james-stein",),
    ),
    Item(
        lines="67-71",
        place="Section 2.1, (2)",
        what="maximum likelihood estimate of all parameters and their mean",
        claims=("generative:thm1:estimator",),
    ),
    Item(
        lines="72-76",
        place="Section 2.1, Theorem 1, (3)",
        what="the estimator in closed form, with its weight a",
        claims=("generative:thm1:estimator",),
    ),
    Item(lines="78", place="Section 2.1, Theorem 1", what="its mean squared error", claims=("generative:thm1:mse",)),
    Item(
        lines="80",
        place="Section 2.1, after Theorem 1",
        what="clients send means, the server averages them",
        reason="definition",
    ),
    Item(
        lines="82-84",
        place="Section 2.1, Remark 1",
        what="a tends to 0 without heterogeneity, to 1 with much of it or many samples",
        claims=("generative:remark1:weight",),
    ),
    Item(
        lines="84",
        place="Section 2.1, Remark 1",
        what="limits of the error; the global, or the local, average is then the best estimator",
        claims=("generative:remark1:limits", "generative:thm1:estimator"),
    ),
    Item(
        lines="84",
        place="Section 2.1, Remark 1",
        what="the gap to the local estimate is at most 1: superiority of the personalised model",
        claims=("generative:remark1:gap",),
    ),
    Item(
        lines="84",
        place="Section 2.1, Remark 1",
        what="the gap is 1/m for sigma_theta = 0, and 0.01 in an example",
        claims=("generative:remark1",),
    ),
    Item(
        lines="86-88",
        place="Section 2.1, Remark 2 (on (24))",
        what="a minimax lower bound that exactly matches Theorem 1: the estimator is optimal",
        claims=("generative:remark2", "generative:eq47"),
    ),
    Item(
        lines="90-94",
        place="Section 2.1, (4)",
        what="messages q(mean), their average, and the estimator that uses it",
        reason="definition",
    ),
    Item(
        lines="95-99",
        place="Section 2.1, Theorem 2, (5)",
        what="error with unbiased mechanisms of bounded variance, and its weight a",
        claims=("generative:thm2:mse", "generative:thm2:a"),
    ),
    Item(
        lines="101-105",
        place="Section 2.1, Theorem 2, item 1",
        what="a k-bit quantiser achieves (33) with sigma_q = b/(2^k - 1) and probability at least 1 - 2/(mn)",
        claims=(
            "generative:thm2:quantiser",
            "generative:thm2:quantiser:projection",
            "generative:thm2:event",
            "generative:thm2:event:mse",
        ),
    ),
    Item(
        lines="107-109",
        place="Section 2.1, Theorem 2, item 2",
        what="an (eps0, delta)-LDP mechanism achieves (33) with sigma_q = b sqrt(8 log(2/delta))/eps0",
        claims=(
            "generative:thm2:ldp",
            "generative:thm2:quantiser:projection",
            "generative:thm2:event",
            "generative:thm2:event:mse",
        ),
    ),
    # --- Section 2.2 ------------------------------------------------------------------------------------------------------
    Item(lines="111-113", place="Section 2.2", what="the Bernoulli model with a Beta prior", reason="definition"),
    Item(
        lines="113",
        place="Section 2.2, footnote 3",
        what="density, mean and variance of the Beta distribution",
        claims=("generative:bern:prior",),
    ),
    Item(
        lines="115-117",
        place="Section 2.2, known alpha, beta",
        what="the posterior mean and its error",
        claims=("generative:bern:posterior", "generative:bern:known-mse"),
    ),
    Item(
        lines="117",
        place="Section 2.2, known alpha, beta",
        what="the weight, and with it the estimate, for many samples and for a prior of small variance",
        claims=("generative:bern:known-mse:limits",),
    ),
    Item(
        lines="117",
        place="Section 2.2, known alpha, beta",
        what="error of the local estimate; with a perfect prior it is always outperformed, by the factor a",
        claims=("generative:bern:known-mse:local", "generative:bern:known-mse:gain"),
    ),
    Item(
        lines="119",
        place="Section 2.2, unknown alpha, beta",
        what="alpha + beta from mean and variance; estimates of both, and the weight from them",
        claims=(
            "generative:bern:moments",
            "generative:bern:variance-estimate",
            "generative:bern:moments:limit-weight",
        ),
    ),
    Item(
        lines="119",
        place="Section 2.2, unknown alpha, beta",
        what="each client's estimates do not use its own data",
        claims=("generative:bern:variance-estimate:own-data",),
    ),
    Item(
        lines="121-123",
        place="Section 2.2, (6)",
        what="the personalised estimator with estimated weight and mean",
        reason="definition",
    ),
    Item(
        lines="124-126",
        place="Section 2.2, Theorem 3",
        what="its error, with probability at least 1 - 1/(mn)",
        claims=("generative:thm3", "generative:thm3:own-data"),
    ),
    Item(
        lines="128-130",
        place="Section 2.2, Remark 3",
        what="the weight tends to 1 for many samples, to 0 for alike clients, where moment estimation is all that is lost",
        claims=("generative:remark3",),
    ),
    Item(
        lines="132-138",
        place="Section 2.2, (7)",
        what="the two-point mechanism: unbiased and user-level eps0-LDP",
        claims=("generative:qpriv", "generative:qpriv:ldp"),
    ),
    Item(
        lines="138",
        place="Section 2.2, after (7)",
        what="estimates from the reports, and the weight from them",
        claims=("generative:thm4:variance-estimate", "generative:thm4:weight", "generative:thm3:weight"),
    ),
    Item(
        lines="140-142",
        place="Section 2.2, Theorem 4",
        what="error of the private estimator, with probability at least 1 - 1/(mn)",
        claims=("generative:thm4:bound", "generative:thm4:bound:radius"),
    ),
    # --- Section 2.3 ------------------------------------------------------------------------------------------------------
    Item(
        lines="144-152",
        place="Section 2.3, (8)",
        what="the discrete prior and the error to be minimised",
        reason="definition",
    ),
    Item(
        lines="154-158",
        place="Section 2.3.1",
        what="clients who know the prior N(mu_l, sigma_theta^2), alpha_l need no other data",
        claims=("generative:thm5",),
    ),
    Item(
        lines="160-164",
        place="Section 2.3.1, Theorem 5, (9)",
        what="the optimal estimator and its weights",
        claims=("generative:thm5",),
    ),
    Item(
        lines="166",
        place="Section 2.3.1, after Theorem 5",
        what="a weight increases with its prior probability, and as the samples come close to its vector",
        claims=("generative:thm5:weights",),
    ),
    Item(
        lines="166",
        place="Section 2.3.1, after Theorem 5",
        what="the local estimator has the error d sigma_x^2/n, which increases linearly with d",
        claims=("generative:thm5:local",),
    ),
    Item(
        lines="166",
        place="Section 2.3.1, after Theorem 5",
        what="the optimal error is a function of prior, vectors and variance",
        claims=("generative:thm5:mse",),
    ),
    Item(lines="168-170", place="Section 2.3.2", what="clients use estimated priors as in (9)", reason="definition"),
    Item(
        lines="172-174",
        place="Section 2.3.2, on (9)",
        what="clustering the models estimates the priors; step 6 is optimal for given ones",
        claims=("generative:alg1", "generative:alg1:collapse", "generative:thm5"),
    ),
    Item(
        lines="176-180",
        place="Section 2.3.2, Algorithm 1",
        what="input and initial models, the means of the samples",
        reason="definition",
    ),
    Item(
        lines="181-193",
        place="Section 2.3.2, Algorithm 1, lines 2-13",
        what="rounds of posterior means and clusters",
        claims=("generative:alg1", "generative:alg1:collapse", "generative:thm5"),
    ),
    Item(lines="195", place="Section 2.3.2, Algorithm 1, output", what="what is returned", reason="definition"),
    Item(
        lines="197-199",
        place="Section 2.3.3",
        what="sharing models each round is not communication-efficient and violates privacy",
        reason="unquantified",
    ),
    Item(
        lines="201-205",
        place="Section 2.3.3, Lemma 1, (10)",
        what="norms of all sample means, with probability at least 1 - 1/(mn)",
        claims=("generative:lemma1",),
    ),
    Item(
        lines="207-209",
        place="Section 2.3.3, after Lemma 1",
        what="clients clip their models within that radius, then quantise or use a private clustering",
        claims=("generative:clip-radius",),
    ),
    Item(lines="209", place="Section 2.3.3", what="T rounds compose by the strong composition theorem", reason="cited"),
)
