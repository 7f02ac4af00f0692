"""What the paper says in Section 5, line by line, and which claims judge it.

Belongs here: the items of that section. Does not belong here: the other sections (inventory.py joins them), claims.
"""

from theory.engine.inventory import Item

PROOFS = (
    # --- Section 5.1.1 ----------------------------------------------------------------------------------------------------
    Item(
        lines="540-550",
        place="Section 5.1.1, Theorem 1 restated, (24)",
        what="the estimator in closed form",
        claims=("generative:thm1:estimator",),
    ),
    Item(lines="552", place="Section 5.1.1, Theorem 1 restated", what="its error", claims=("generative:thm1:mse",)),
    Item(
        lines="554-556",
        place="Section 5.1.1",
        what="one coordinate gives the optimal estimator and the error of all",
        claims=("generative:thm1:estimator", "generative:thm1:mse"),
    ),
    Item(
        lines="558-562",
        place="Section 5.1.1, (25), (26), (27)",
        what="the largest likelihood as a least sum of squares",
        claims=("generative:thm1:estimator",),
    ),
    Item(
        lines="564",
        place="Section 5.1.1, after (27)",
        what="the sum of squares is jointly convex",
        claims=("generative:thm1:convex",),
    ),
    Item(
        lines="566-567",
        place="Section 5.1.1, (28), (29)",
        what="its partial derivatives",
        claims=("generative:thm1:gradient",),
    ),
    Item(
        lines="569-573",
        place="Section 5.1.1, (30)",
        what="the solution of the m + 1 equations",
        claims=("generative:thm1:estimator",),
    ),
    Item(
        lines="575",
        place="Section 5.1.1, before (31)",
        what="conditional expectation of the estimate; it is unbiased",
        claims=("generative:thm1:unbiased",),
    ),
    Item(
        lines="577-579",
        place="Section 5.1.1, (31)",
        what="the error is variance plus squared bias",
        claims=("generative:claim1", "generative:thm1:mse"),
    ),
    Item(lines="580-582", place="Section 5.1.1, Claim 1", what="the two parts", claims=("generative:claim1",)),
    Item(
        lines="584-590",
        place="Section 5.1.1, (32)",
        what="their sum, simplified with the weight a",
        claims=("generative:thm1:mse",),
    ),
    Item(
        lines="592",
        place="Section 5.1.1, after (32)",
        what="four terms: two variances, a correlation, the bias",
        claims=("generative:thm1:terms", "generative:claim1"),
    ),
    Item(
        lines="594-601",
        place="Section 5.1.1, proof of Claim 1",
        what="the variance given theta",
        claims=("generative:claim1", "generative:thm1:terms"),
    ),
    Item(
        lines="603-612",
        place="Section 5.1.1, proof of Claim 1",
        what="the squared bias by squares and products of differences",
        claims=("generative:claim1:cross", "generative:claim1"),
    ),
    Item(lines="614", place="Section 5.1.1", what="end of the proof", reason="furniture"),
    # --- Section 5.1.2 ----------------------------------------------------------------------------------------------------
    Item(
        lines="616-622",
        place="Section 5.1.2, Theorem 2 restated, (33)",
        what="error with unbiased mechanisms of bounded variance, and its weight a",
        claims=("generative:thm2:mse", "generative:thm2:a"),
    ),
    Item(
        lines="624-632",
        place="Section 5.1.2, Theorem 2 restated, items 1 and 2",
        what="a quantiser and a private mechanism achieve it",
        claims=("generative:thm2:quantiser", "generative:thm2:event", "generative:thm2:ldp", "generative:thm2:event:mse"),
    ),
    Item(
        lines="634-638",
        place="Section 5.1.2, proof of (33)",
        what="one coordinate gives the optimal estimator and the error of all",
        claims=("generative:thm2:a", "generative:thm2:mse"),
    ),
    Item(
        lines="640-656",
        place="Section 5.1.2, (34), (35), (36)",
        what="conditional expectation and error of the estimate, and the weight that step (c) chooses",
        claims=("generative:thm2:mse", "generative:thm2:a", "generative:claim1"),
    ),
    Item(
        lines="658",
        place="Section 5.1.2, after (36)",
        what="steps (a) to (c)",
        claims=("generative:thm2:mse", "generative:thm2:a"),
    ),
    Item(
        lines="660-662",
        place="Section 5.1.2, part 1",
        what="sample means are bounded with high probability; an unbiased quantiser is applied to the projected mean",
        claims=("generative:thm2:event", "generative:thm2:quantiser", "generative:thm2:quantiser:projection"),
    ),
    Item(
        lines="664",
        place="Section 5.1.2, part 1",
        what="tails of sample means and parameters, and the event that all means lie in the range",
        claims=("generative:thm2:tail", "generative:thm2:event"),
    ),
    Item(
        lines="666-673",
        place="Section 5.1.2, (37), (38), (39)",
        what="the quantiser needs k bits, is unbiased and has bounded variance",
        claims=("generative:thm2:quantiser",),
    ),
    Item(
        lines="675-679",
        place="Section 5.1.2, (40)",
        what="the error given the event, for projected means",
        claims=("generative:thm2:event:mse", "generative:thm2:quantiser:projection", "generative:thm2:event"),
    ),
    Item(
        lines="681-690",
        place="Section 5.1.2, (41), (42), (43)",
        what="Gaussian noise is locally private, unbiased and has this variance",
        claims=("generative:thm2:ldp",),
    ),
    Item(
        lines="692-696",
        place="Section 5.1.2, (44)",
        what="the error given the event, for projected means",
        claims=("generative:thm2:event:mse", "generative:thm2:quantiser:projection", "generative:thm2:event"),
    ),
    # --- Section 5.1.3 ----------------------------------------------------------------------------------------------------
    Item(lines="698-703", place="Section 5.1.3", what="Fisher information of samples and of a prior", reason="definition"),
    Item(
        lines="705-713",
        place="Section 5.1.3, conditions of van Trees' inequality",
        what="prior vanishes at the ends, scores have mean zero: Gaussian always, Bernoulli for alpha, beta > 1",
        claims=("generative:vantrees:conditions",),
    ),
    Item(
        lines="713-715",
        place="Section 5.1.3, van Trees in one dimension",
        what="the inequality, judged for Gaussian and for Bernoulli samples",
        claims=("generative:eq45", "generative:eq45:bernoulli"),
    ),
    Item(
        lines="717-719",
        place="Section 5.1.3, (45)",
        what="the inequality for independent coordinates",
        claims=("generative:eq45",),
    ),
    Item(
        lines="721",
        place="Section 5.1.3",
        what="a lower bound on the average risk is one on the worst risk",
        claims=("generative:eq46", "generative:eq47"),
    ),
    Item(
        lines="723-736",
        place="Section 5.1.3, Fact 1",
        what="a Gaussian with a Gaussian mean, by characteristic functions",
        claims=("generative:fact1",),
    ),
    Item(
        lines="738-740",
        place="Section 5.1.3, (46)",
        what="lower bound with a known prior",
        claims=("generative:eq46",),
    ),
    Item(
        lines="742",
        place="Section 5.1.3, before (47)",
        what="the prior around the mean of all data, by Fact 1 twice",
        claims=("generative:eq47:argument",),
    ),
    Item(
        lines="742-744",
        place="Section 5.1.3, (47)",
        what="lower bound with an estimated mean",
        claims=("generative:eq47",),
    ),
    # --- Section 5.2 ------------------------------------------------------------------------------------------------------
    Item(
        lines="746-750",
        place="Section 5.2.1",
        what="the count of ones suffices; the posterior mean minimises the risk",
        claims=("generative:bern:posterior",),
    ),
    Item(
        lines="752-763",
        place="Section 5.2.1",
        what="posterior density, and the law of the count",
        claims=("generative:bern:evidence", "generative:bern:posterior"),
    ),
    Item(
        lines="765-769",
        place="Section 5.2.1",
        what="the posterior is Beta(z+alpha, n-z+beta), and its mean",
        claims=("generative:bern:posterior",),
    ),
    Item(
        lines="770-779",
        place="Section 5.2.1",
        what="its mean squared error",
        claims=("generative:bern:known-mse",),
    ),
    Item(
        lines="781-785",
        place="Section 5.2.2, Theorem 3 restated",
        what="error bound with estimated moments",
        claims=("generative:thm3", "generative:thm3:own-data"),
    ),
    Item(lines="787-791", place="Section 5.2.2, (48)", what="the personalised model", reason="definition"),
    Item(
        lines="793",
        place="Section 5.2.2, after (48)",
        what="weight, mean and variance as the proof writes them",
        claims=(
            "generative:thm3:weight",
            "generative:bern:moments:appendix",
            "generative:bern:variance-estimate:own-centre",
        ),
    ),
    Item(
        lines="793-798",
        place="Section 5.2.2, events of the proof",
        what="mean and variance are near their estimates with probability 1 - 1/(m^2 n)",
        claims=(
            "generative:bern:variance-event",
            "generative:bern:variance-event:mean",
            "generative:bern:variance-event:finite",
        ),
    ),
    Item(
        lines="800-809",
        place="Section 5.2.2, bound of the proof",
        what="the error given the others' data, and averaged over them",
        claims=("generative:thm3",),
    ),
    Item(
        lines="811-818",
        place="Section 5.2.3, Theorem 4 restated",
        what="error bound with private reports",
        claims=("generative:thm4:bound", "generative:thm4:bound:radius"),
    ),
    Item(
        lines="819-825",
        place="Section 5.2.3, (49)",
        what="ratio of the report's probabilities: user-level eps0-LDP",
        claims=("generative:qpriv:ldp",),
    ),
    Item(lines="827-829", place="Section 5.2.3, (50)", what="the report is unbiased", claims=("generative:qpriv",)),
    Item(
        lines="829-832",
        place="Section 5.2.3, (51)",
        what="Hoeffding tails of the private mean and variance",
        claims=("generative:thm4:hoeffding", "generative:thm4:hoeffding:tail", "generative:thm4:variance-estimate"),
    ),
    Item(
        lines="834",
        place="Section 5.2.3, after (51)",
        what="the event and its radius c_p",
        claims=("generative:thm4:bound:radius",),
    ),
    Item(
        lines="836-839",
        place="Section 5.2.3, (52)",
        what="the bound, and the weight from the reports",
        claims=("generative:thm4:bound", "generative:thm3:weight"),
    ),
    # --- Section 5.3 ------------------------------------------------------------------------------------------------------
    Item(
        lines="841-853",
        place="Section 5.3.1, Theorem 5 restated, (53)",
        what="the optimal estimator and its weights",
        claims=("generative:thm5",),
    ),
    Item(lines="855-861", place="Section 5.3.1, (54)", what="model and error", reason="definition"),
    Item(
        lines="863-867",
        place="Section 5.3.1, (55)",
        what="the posterior mean has the least error",
        claims=("generative:thm5", "generative:thm5:mse"),
    ),
    Item(
        lines="869-877",
        place="Section 5.3.1, (56), (57)",
        what="posterior probabilities and the posterior mean",
        claims=("generative:thm5",),
    ),
    Item(
        lines="879-886",
        place="Section 5.3.2, Lemma 1 restated",
        what="norms of all sample means",
        claims=("generative:lemma1",),
    ),
    Item(
        lines="888-894",
        place="Section 5.3.2, (58), (59)",
        what="norm of a Gaussian vector, with probability at least 1 - eta; with the candidate's norm added",
        claims=("generative:lemma1:norm",),
    ),
    Item(lines="896", place="Section 5.3.2", what="the union bound over clients", claims=("generative:lemma1",)),
)
