"""What Robust-HDP states, line by line of its text: which claims judge it, or why nothing can.

Belongs here: the inventory. Does not belong here: claims, how an inventory is checked (theory.engine.inventory).
"""

from __future__ import annotations

from theory.engine.inventory import Item

TEXT = "6722959cf14abc5d"


def _id(*names: str) -> tuple[str, ...]:
    return tuple(f"robusthdp:{name}" for name in names)


ITEMS = (
    Item(lines="2-8", place="Title", what="title, authors", reason="furniture"),
    Item(
        lines="10", place="Abstract", what="removing clients, or the strictest budget for all, costs utility through noise",
        claims=_id("eq8:removal", "tab2:baselines"),
    ),
    Item(
        lines="10", place="Abstract", what="""noise-aware aggregation improves utility and convergence speed; the analysis
            confirms it""", claims=_id("thm2:weights", "eq8:weights"),
    ),
    Item(
        lines="10", place="Abstract", what="experiments confirm utility and speed", reason="training",
        entry="robusthdp-mnist",
    ),
    Item(lines="12-14", place="Section 1", what="federated learning and who protects its data", reason="cited"),
    Item(
        lines="16", place="Section 1", what="smaller batches increase the noise of model updates fast",
        claims=_id("batch-power3", "z-sublinear"),
    ),
    Item(lines="16-18", place="Section 1", what="what existing algorithms ask for", reason="cited"),
    Item(
        lines="18", place="Section 1", what="the noise depends on privacy, batch size and data size",
        claims=_id("eq7", "small-q-noisier", "budget"),
    ),
    Item(
        lines="18", place="Section 1", what="noise-aware weights improve utility and convergence speed, in theory",
        claims=_id("thm2:weights", "eq8:minvar"),
    ),
    Item(
        lines="18", place="Section 1", what="and in experiments", reason="training", entry="robusthdp-mnist",
    ),
    Item(
        lines="20", place="Section 1, contributions", what="the batch size has a considerable effect on the noise",
        claims=_id("batch-power3"),
    ),
    Item(lines="21", place="Section 1, contributions", what="the algorithm", claims=_id("alg1")),
    Item(
        lines="22", place="Section 1, contributions", what="""convergence is proved for unequal data, batches, weights,
            participation""", claims=_id("thm2", "thm2:quadratic", "thm2:dependent-weights"),
    ),
    Item(
        lines="23", place="Section 1, contributions", what="superior utility and speed", reason="training",
        entry="robusthdp-mnist",
    ),
    Item(lines="25-27", place="Section 2", what="heading", reason="furniture"),
    Item(lines="29-31", place="Definition 1", what="(eps, delta)-DP; neighbours differ in one element", reason="definition"),
    Item(
        lines="33", place="Section 2", what="noise of the Gaussian mechanism for eps < 1",
        claims=_id("gauss", "gauss:range"),
    ),
    Item(lines="33", place="Section 2", what="personalised and selective DP", reason="cited"),
    Item(
        lines="35", place="Section 2", what="the strictest budget for all loses utility", claims=_id("tab2:baselines"),
    ),
    Item(lines="35-37", place="Section 2", what="earlier work on heterogeneous budgets, projections", reason="cited"),
    Item(
        lines="39", place="Section 2", what="eps does not tell the noise when batch and data sizes differ",
        claims=_id("eq8:eps-loss", "eq8:eps-weights"),
    ),
    Item(lines="41", place="Section 2", what="models of different size by distillation", reason="cited"),
    Item(lines="43", place="Section 2", what="what is called for", reason="prose"),
    Item(lines="45", place="Section 2, Notations", what="clients, losses, batches, rounds, epochs", reason="definition"),
    Item(lines="47-51", place="Section 3, (1)", what="the noisy batch gradient", reason="definition"),
    Item(lines="53", place="Section 3, after (1)", what="clipping, sigma_dp = c z, the question asked", reason="definition"),
    Item(lines="55-57", place="Section 3.1", what="two indicative cases", reason="definition"),
    Item(lines="59-63", place="Section 3.1, case 1, (2)", what="mean with effective clipping", claims=_id("eq2")),
    Item(
        lines="63-67", place="Section 3.1, case 1, (3)", what="variance with effective clipping, and its approximation",
        claims=_id("eq3", "eq3:approx", "eq3:any-clip"),
    ),
    Item(lines="69-71", place="Section 3.1, case 2, (4)", what="mean without effective clipping", claims=_id("eq4")),
    Item(lines="73", place="Section 3.1, case 2, (5)", what="variance without effective clipping", claims=_id("eq5")),
    Item(
        lines="75", place="Section 3.1, after (5)", what="z grows sub-linearly with b, so the variance decreases with b",
        claims=_id("z-sublinear", "z-sublinear:order2"),
    ),
    Item(
        lines="75", place="Section 3.1, last sentence", what="a lower budget needs more noise",
        claims=_id("budget", "small-q-noisier"),
    ),
    Item(lines="77-79", place="Section 3.2", what="number of local steps", reason="definition"),
    Item(lines="81", place="Section 3.2, (6)", what="the model update", reason="definition"),
    Item(lines="83-85", place="Section 3.2, (7)", what="variance of the model update", claims=_id("eq7")),
    Item(
        lines="87", place="Section 3.2, after (7)", what="b enters with power 3; the variance decreases quickly",
        claims=_id("batch-power3"),
    ),
    Item(
        lines="87", place="Section 3.2, after (7)", what="""so it does with equal batches and unequal data; small eps and
            small q are noisier""", claims=_id("small-q-noisier"),
    ),
    Item(
        lines="89-91", place="Section 3.2, (8)", what="the least noise of the aggregate",
        claims=_id("eq8:weights", "eq8:minvar"),
    ),
    Item(lines="93", place="Section 3.2, after (8)", what="the solution, and that it is unique", claims=_id("eq8:unique")),
    Item(
        lines="93", place="Section 3.2, after (8)", what="weights in proportion to eps may be suboptimal",
        claims=_id("eq8:eps-weights", "eq8:loss", "eq8:eps-loss", "eq8:eps-loss:alike"),
    ),
    Item(lines="96", place="Figure 1", what="a plot of (7) over q and eps", claims=_id("small-q-noisier")),
    Item(
        lines="98-105", place="Table 1", what="which algorithm weighs by what and needs what at the server",
        reason="definition",
    ),
    Item(lines="107", place="Section 3.2, end", what="the server does not know the noise; costs of [19]", reason="prose"),
    Item(lines="109-111", place="Section 3.3", what="clients find their noise scales; M is expected of low rank",
         reason="cited"),
    Item(
        lines="113-115", place="Section 3.3, M = L + S", what="S is sparse and captures the noise", claims=_id("sparse"),
    ),
    Item(
        lines="115", place="Section 3.3", what="sigma_hat_i^2 estimates the noise, and gives the weights",
        claims=_id("lem1:mean", "alg1", "tab2:estimation"),
    ),
    Item(
        lines="117-119", place="Section 3.4", what="variances up to a common factor suffice",
        claims=_id("small-alpha", "alg1"),
    ),
    Item(
        lines="121-123", place="Lemma 1, (9)", what="mean and tail of the noise estimate",
        claims=_id("lem1:mean", "lem1:tail", "lem1:tail:two-point", "lem1:tail:chi2"),
    ),
    Item(
        lines="125-147", place="Section 3.4, after Lemma 1", what="the estimate is close; its probability increases with p",
        claims=_id("lem1:tail", "lem1:tail:p"),
    ),
    Item(
        lines="127-145", place="Algorithm 1: lines 7-11", what="weights and update of the server",
        claims=_id("alg1", "alg1:columns"),
    ),
    Item(lines="127-145", place="Algorithm 1: rounds, indices", what="what is read and written", claims=_id("alg1:rounds")),
    Item(
        lines="147", place="Section 3.4, last sentence", what="a small error leaves the weights near the optimum",
        claims=_id("small-alpha", "small-alpha:power", "small-alpha:excess", "small-alpha:bound"),
    ),
    Item(
        lines="149-151", place="Section 3.5", what="precision of robust PCA decreases as p grows", claims=_id("precision"),
    ),
    Item(lines="151", place="Section 3.5", what="sub-matrices and their average estimate", claims=_id("blocks")),
    Item(
        lines="151", place="Section 3.5", what="weights stay near the optimum on CIFAR-10 (Figure 9)", reason="training",
        entry="robusthdp-cifar10",
    ),
    Item(
        lines="153-157", place="Theorem 1", what="noise scale for (eps_i, delta_i); all clients together",
        claims=_id("thm1", "thm1:any-constants", "thm1:rule", "thm1:sampled", "thm1:parallel"),
    ),
    Item(lines="159", place="Section 3.6, after Theorem 1", what="the model is (eps_i, delta_i)-DP", claims=_id("thm1")),
    Item(lines="161-163", place="Section 3.7", what="the loss f and its minimum", reason="definition"),
    Item(
        lines="165-167", place="Theorem 2, (10)", what="step-size conditions and the bound",
        claims=_id("thm2", "thm2:quadratic", "thm2:step", "thm2:dependent-weights"),
    ),
    Item(lines="169-171", place="Theorem 2, (11)", what="the terms of the bound", claims=_id("thm2")),
    Item(
        lines="173", place="Section 3.7, Discussion", what="Psi_sigma decreases with E_i and the noise",
        claims=_id("thm2:psi-sigma"),
    ),
    Item(
        lines="173", place="Section 3.7, Discussion", what="Psi_p decreases with participation, similar data and batches",
        claims=_id("thm2:participation", "thm2:similar"),
    ),
    Item(
        lines="173", place="Section 3.7, Discussion", what="convex losses: converges to a neighbourhood of unnamed size",
        reason="unquantified",
    ),
    Item(
        lines="173", place="Section 3.7, Discussion", what="more general than [19] and [38]", reason="cited",
    ),
    Item(
        lines="173-175", place="Section 3.7, Discussion, (12)", what="""without privacy and heterogeneity the bound is that
            of FedAvg and SGD""", claims=_id("eq12"),
    ),
    Item(lines="177", place="Section 3.7, after (12)", what="rate 1/sqrt(E)", claims=_id("eq12:rate")),
    Item(lines="179-187", place="Section 4.1", what="data, models, baselines, budgets, batch sizes", reason="setting"),
    Item(lines="189-197", place="Figure 2 and Figure 3", what="plots of utility and speed", reason="training",
         entry="robusthdp-mnist"),
    Item(lines="199", place="Section 4.2, RQ1", what="Robust-HDP outperforms; projection does not help", reason="training",
         entry="robusthdp-mnist"),
    Item(
        lines="201", place="Section 4.2, RQ2", what="baselines suffer from noise, Robust-HDP is very close to the optimum",
        claims=_id("tab2", "tab2:baselines", "tab2:simulated"),
    ),
    Item(lines="201", place="Section 4.2, RQ2", what="faster convergence in Figure 3", reason="training",
         entry="robusthdp-figure3"),
    Item(lines="203", place="Section 4.2, RQ3", what="estimates against true variances (Figure 4)", reason="training",
         entry="robusthdp-figure4"),
    Item(
        lines="203", place="Section 4.2, RQ3", what="a large batch gets a much larger weight, whatever eps",
        claims=_id("batch-power3", "eq8:weights"),
    ),
    Item(
        lines="205-212", place="Table 2", what="noise of the aggregate, by algorithm and distribution",
        claims=_id("tab2", "tab2:baselines", "tab2:estimation"),
    ),
    Item(lines="215-218", place="Figure 4 and Figure 5", what="plots", reason="training", entry="robusthdp-figure5-40"),
    Item(lines="220", place="Section 4.2, RQ4", what="utility over budgets and numbers of clients", reason="training",
         entry="robusthdp-figure5-60"),
    Item(
        lines="222-224", place="Section 5", what="theory confirms better utility and faster convergence",
        claims=_id("thm2:weights"),
    ),
    Item(lines="226-274", place="References", what="references", reason="furniture"),
)  # fmt: skip

__all__ = ["ITEMS", "TEXT"]
