"""What the paper says of learning (Sections 3, 4 and 6, appendices A and B), line by line, and which claims judge it.

Belongs here: the items of those sections, which inventory.py joins. Does not belong here: Sections 1, 2 and 5, claims.
"""

from theory.engine.inventory import Item


def _said(lines: str, place: str, what: str, *claims: str, quotes: tuple[str, ...] = ()) -> Item:
    """Something that claims judge, by their ids without the paper's key."""
    return Item(lines=lines, place=place, what=what, claims=tuple(f"generative:{c}" for c in claims), quotes=quotes)


def _passed(lines: str, place: str, what: str, reason: str, *, quotes: tuple[str, ...] = (), entry: str = "") -> Item:
    """Something that no claim judges, and why."""
    return Item(lines=lines, place=place, what=what, reason=reason, quotes=quotes, entry=entry)


SECTION_3 = (
    _passed("211", "Section 3", "heading", "furniture"),
    _passed(
        "213-215", "Section 3, (11)", "the generative model: parameters drawn from P, responses given features", "definition"
    ),
    _said(
        "217-219",
        "Section 3, (12)",
        "minimising the negative log-likelihood of (11) gives the optimal parameters",
        "eq14",
        "thm6",
        "eq19",
    ),
    _passed("221", "Section 3, after (12)", "f_i is the client's loss, R the regulariser", "definition"),
    _passed(
        "221",
        "Section 3, after (12)",
        "with little data clients may not learn good models from their own alone",
        "unquantified",
    ),
    _passed("223", "Section 3, cases of (12)", "special cases follow", "prose"),
    _said(
        "225-227",
        "Section 3, case 1",
        "Gaussian population: a quadratic regulariser",
        "eq12:gauss",
    ),
    _said(
        "229-231", "Section 3, case 2", "Laplace population: regulariser m log(2b) + sum |theta - mu|_1/b", "eq12:laplace"
    ),
    _said("233-235", "Section 3, case 3", "Gaussian mixture: regulariser", "eq12:mixture"),
    _said("237-239", "Section 3, case 4", "normal responses: quadratic loss", "eq12:linear"),
    _said("241-243", "Section 3, case 5", "logistic responses: cross-entropy", "eq12:logistic"),
    _passed("245-249", "Section 3.1, (13)", "the linear model; Y_i lists Y_i1 twice where Y_in is meant", "definition"),
    _passed("251", "Section 3.1", "noise and parameters are Gaussian", "definition"),
    _said("253-257", "Section 3.1.1, (14)", "the objective for known prior and noise", "eq14"),
    _said("259", "Section 3.1.1", "Theorem 6 has the optimal parameters and their error", "thm6"),
    _said("261-265", "Section 3.1.1, Theorem 6, (15)", "the optimal personalised parameters", "thm6"),
    _said("267-269", "Section 3.1.1, Theorem 6, (16)", "their mean squared error", "thm6"),
    _said("271-275", "Section 3.1.1, (17)", "the local estimate, with a pseudo-inverse where X'X is singular", "eq18"),
    _said("277", "Section 3.1.1, (18)", "its mean squared error", "eq18"),
    _said(
        "279",
        "Section 3.1.1, (15) and (17) after (18)",
        "with a flat prior the personalised estimate is the local one",
        "limit",
    ),
    _said(
        "281-285",
        "Section 3.1.2, (19)",
        "the objective over parameters, mean and variances has a minimiser",
        "eq19",
        "eq19:local",
        "eq19:variance",
    ),
    _said("287", "Section 3.1.2", "gradient descent optimises (19)", "eq19", "alg2"),
    _passed("289-297", "Section 3.1.2, Algorithm 2, lines 1-5", "input, start, what clients receive", "definition"),
    _said(
        "298-301",
        "Section 3.1.2, Algorithm 2, lines 6-9",
        "the clients' gradient steps; variances stay variances",
        "alg2",
        "alg2:positive",
        "alg2:drift",
    ),
    _passed("302-303", "Section 3.1.2, Algorithm 2, lines 10-11", "end of the clients' part", "furniture"),
    _said("304-306", "Section 3.1.2, Algorithm 2, lines 12-14", "the server's averages", "alg2:server"),
    _passed("307-310", "Section 3.1.2, Algorithm 2, lines 15-16", "broadcast, output", "definition"),
    _said("312-317", "Section 3.2, (20)", "the objective for logistic responses", "eq20", "eq12:logistic"),
    _said("319", "Section 3.2", "mu and the variance are learnt by gradient descent, as in the linear case", "alg3", "eq19"),
    _passed(
        "321-329",
        "Section 3.2, Algorithm 3, lines 1-5",
        "input, start, what clients receive (of index t, where lines 6-8 use t - 1)",
        "definition",
    ),
    _said("330-334", "Section 3.2, Algorithm 3, lines 6-8", "the clients' gradient steps", "alg3", "alg2:positive"),
    _passed("335-338", "Section 3.2, Algorithm 3, lines 9-12", "what is sent and received", "definition"),
    _said("339-340", "Section 3.2, Algorithm 3, lines 13-14", "the server's averages, as in Algorithm 2", "alg2:server"),
    _passed("341-344", "Section 3.2, Algorithm 3, lines 15-16", "broadcast, output", "definition"),
    _said("346-351", "Section 3.3, (21)", "the objective for logistic responses and a mixture", "eq21", "eq12:mixture"),
    _said("353-355", "Section 3.3, (22)", "the same for any loss", "eq12:mixture", "eq21"),
    _passed("357", "Section 3.3", "gradient descent or clustering may solve it; DP clustering can be combined", "prose"),
    _passed(
        "359-367", "Section 3.3, Algorithm 4, lines 1-5, from index (0)", "input, start, what clients receive", "definition"
    ),
    _said("368-369", "Section 3.3, Algorithm 4, line 6", "the client's gradient step", "alg4"),
    _passed(
        "370-378",
        "Section 3.3, Algorithm 4, lines 7-13",
        "the server clusters the models; line 12 leaves out the variances that line 5 receives",
        "definition",
    ),
    _passed(
        "380-382", "Section 3.3, Description of Algorithm 4", "what clients and server do; a server has resources", "prose"
    ),
    _passed("384-386", "Section 3.3, Adding DP", "DP clustering can be used", "cited"),
    _said("388", "Section 3.3", "a discrete mixture is a Gaussian one of variance 0", "discrete:limit"),
    _passed(
        "390-403",
        "Section 3.4, Algorithm 5, lines 1-8",
        "parameters, sampling (from [n] for [m]), broadcast",
        "definition",
    ),
    _said(
        "404-410",
        "Section 3.4, Algorithm 5, lines 9-15",
        "gradients and updates of theta_i, mu_i and psi_i",
        "alg5",
        "alg5:positive",
        "alg5:updates",
    ),
    _said("411-414", "Section 3.4, Algorithm 5, lines 16-19", "what clients send and the server averages", "alg5:server"),
    _passed("415-418", "Section 3.4, Algorithm 5, lines 20-21", "end, output", "furniture"),
    _passed("420", "Section 3.4", "distillation performs better than the l2 regulariser, empirically", "cited"),
    _said("420", "Section 3.4", "a prior gives the distillation regulariser", "kd:density"),
    _said("422", "Section 3.4, (23)", "AdaPeD's objective", "eq23", "eq23:penalised", "kd:regulariser"),
    _said(
        "424",
        "Section 3.4, after (23)",
        "psi cannot be unbounded; it rises and falls with the divergence",
        "eq23",
        "eq23:psi",
    ),
    _said("424", "Section 3.4, after (23)", "the alternating minimisation (Algorithm 5; the text says 6)", "alg5"),
    _said(
        "426-428",
        "Section 3.4, Description of AdaPeD",
        "updates where t + 1 is not divisible by tau, uploads where it is",
        "alg5:updates",
        "alg5:server",
    ),
    _passed("430-432", "Section 3.5", "noise is added to h_i and k_i", "prose"),
    _passed("434-437", "Section 3.5, lines 13 and 15", "clipped and noisy updates of mu_i and psi_i", "definition"),
    _passed("439", "Section 3.5", "what Theorem 7 is about", "prose"),
    _said(
        "441-443",
        "Section 3.5, Theorem 7",
        "Renyi divergence of DP-AdaPeD for every order above 1",
        "thm7:rdp",
        "thm7:conditions",
    ),
    _said("445", "Section 3.5, after Theorem 7", "conversion to user-level (eps, delta)", "lemma2:eps", "thm7:rdp"),
    _said("445", "Section 3.5, after Theorem 7", "it composes better than strong composition", "thm7:composition"),
    _said(
        "447-453",
        "Section 3.6, Regularization",
        "the Gaussian population gives the l2 regulariser; mu is the global model",
        "eq12:gauss",
        "alg2:server",
    ),
    _passed(
        "455-457",
        "Section 3.6, Clustered FL",
        "mixtures over a simplex as populations (its dimension is k, not m)",
        "definition",
    ),
    _said("459", "Section 3.6, Clustered FL", "Gaussian clients are no finite mixture", "clustered:finite"),
    _said(
        "461-463",
        "Section 3.6, Knowledge distillation",
        "the population falls exponentially with the divergence",
        "kd:density",
    ),
    _said(
        "463",
        "Section 3.6, Knowledge distillation",
        "the regulariser in use leaves the parametrisation out",
        "kd:regulariser",
        "kd:regulariser:slope",
    ),
    _said("465-467", "Section 3.6, FL with Multi-task Learning", "known covariances give the quadratic regulariser", "mtl"),
    _passed(
        "469-471",
        "Section 3.6, Common representations",
        "theta_i = B w_i with a common basis (a sum over j repeats B); bounded weights",
        "definition",
    ),
)

SECTION_4 = (
    _passed("473-475", "Section 4", "which experiments follow", "prose"),
    _said(
        "477",
        "Section 4, synthetic Bernoulli experiments",
        "errors fall by 37.1, 12.0, 24.3 and 34.0 per cent for four priors",
        "exp:bernoulli",
        "exp:bernoulli:implied",
        quotes=("3.9%", "1.6%", "2.8%", "3.7%"),
    ),
    _said(
        "477",
        "Section 4, synthetic Bernoulli experiments",
        "less spread out priors give a larger gap",
        "exp:bernoulli:spread",
    ),
    _said(
        "479",
        "Section 4, political tendencies on county level",
        "the error falls by 10.7 +- 1.9 per cent",
        "exp:elections",
        "exp:elections:best",
        quotes=("1.9%",),
    ),
    _said(
        "479",
        "Section 4, political tendencies on county level",
        "1-fold cross validation of six elections",
        "exp:elections:folds",
        quotes=("1-fold",),
    ),
    _said(
        "481",
        "Section 4, Linear regression",
        "gains of 8.0, 14.8 (d = 50) and 9.2, 12.3 per cent (d = 100) over local regression and FedAvg",
        "exp:linreg",
        "exp:linreg:order",
        "exp:linreg:local",
        quotes=("0.8%", "1.2%", "1.1%", "2.0%"),
    ),
    _passed(
        "481",
        "Section 4, Linear regression",
        "the alternating algorithm costs 1 and 4.7 per cent more error; its start is not given",
        "training",
        quotes=("1%", "4.7%"),
    ),
    _passed("483-485", "Section 4, Experiment setting", "data, heterogeneity, epochs, rates", "setting"),
    _said("485", "Section 4, Experiment setting", "66 clients of 198 writers, three each", "exp:writers"),
    _said("485", "Section 4, Experiment setting", "60 iterations in an epoch, with 203 to 336 samples", "exp:iterations"),
    _said("485", "Section 4, Experiment setting", "0.33 and 0.15 of the clients are sampled", "exp:sampled"),
    _passed("487-495", "Section 4, Table 1", "test accuracies", "training", entry="adaped-table1"),
    _said("488", "Section 4, Table 1, head", "shares of sampled clients", "exp:sampled"),
    _passed(
        "496-497",
        "Section 4, Figure 1",
        "accuracy against eps; local training does not depend on eps",
        "training",
        entry="adaped-figure1",
    ),
    _said(
        "499",
        "Section 4, Results",
        "AdaPeD consistently outperforms; methods that distil do better",
        "tab1:best",
        "tab1:distillation",
    ),
    _passed(
        "499",
        "Section 4, Results",
        "psi falls in training, and later rises with the noise",
        "training",
        entry="adaped-figure1",
    ),
    _passed(
        "501",
        "Section 4, DP-AdaPeD",
        "clients outperform local training even for low eps",
        "training",
        entry="adaped-figure1",
    ),
    _passed(
        "503-506",
        "Section 4, DP-AdaPeD with local finetuning, Figure 2",
        "fine-tuning and joint clipping perform better at low eps",
        "training",
        entry="adaped-figure2",
    ),
    _said("503", "Section 4, DP-AdaPeD with local finetuning", "1/3 client sampling, the setting with 0.33", "exp:sampled"),
    _said(
        "508",
        "Section 4, Comparing to DP version of FedEM",
        "99.04 and 98.90 per cent are comparable",
        "exp:fedem",
        quotes=("0.11%", "0.20%"),
    ),
    _passed(
        "508",
        "Section 4, Comparing to DP version of FedEM",
        """sharing more, and having no separate model, costs accuracy under privacy; FedEM needs more iterations with
        sampling""",
        "unquantified",
    ),
    _passed(
        "510-513", "Section 4, Figure 3", "DP FedEM performs poorly, for two reasons", "training", entry="adaped-figure3"
    ),
    _said(
        "515-520",
        "Section 4, DP Personalized Estimation, Figure 4",
        "with little privacy the private estimate recovers the regular one; with more it becomes slightly worse",
        "exp:fig4",
        "exp:fig4:worse",
        "exp:fig4:gain",
        "exp:fig4:high-eps",
    ),
    _passed("522-524", "Section 4.1", "what follows", "prose"),
    _passed(
        "526",
        "Section 4.1, Linear Regression",
        "variances of parameters, noise, features (used in Section 4's claims)",
        "setting",
    ),
    _passed("528", "Section 4.1, Federated Setting", "codes, rates, decay", "setting"),
    _said("528", "Section 4.1, Federated Setting", "a network whose first full layer takes 256 values", "exp:network"),
    _passed("530", "Section 4.1, AdaPeD", "psi chosen from 0.5 to 5, rates", "setting"),
    _said(
        "530", "Section 4.1, AdaPeD", "psi is kept at or above 0.5, so that the local loss is not dominated", "exp:psi-floor"
    ),
    _passed("532-538", "Section 4.1", "parameters of the other methods", "setting"),
)

SECTION_6 = (
    _passed("898-900", "Section 6", "headings", "furniture"),
    _said("902-906", "Section 6.1, Theorem 6 restated, (60)", "the optimal parameters", "thm6"),
    _said("908-911", "Section 6.1, Theorem 6 restated, (61)", "their error", "thm6"),
    _said("913-917", "Section 6.1, proof", "the objective: densities, sums of squares", "eq14"),
    _said("919-921", "Section 6.1, (62)", "its derivative", "eq62"),
    _said("923-925", "Section 6.1, (63)", "the derivative's zero", "thm6"),
    _said("927-929", "Section 6.1, (64)", "mean of the estimate over the noise", "eq64"),
    _said("931-937", "Section 6.1, after (64)", "the error splits: the cross term vanishes", "thm6:parts"),
    _said("939-944", "Section 6.1, after (64)", "both parts as traces, and their sum", "thm6:parts", "thm6"),
    _passed("946", "Section 6.1", "end of the proof", "prose"),
    _passed("948-956", "Section 6.2.1", "probability matrices, their distribution", "definition"),
    _said(
        "958-960", "Section 6.2.1, (65)", "the density, an exponential of the divergence, and its normaliser", "kd:density"
    ),
    _passed("960", "Section 6.2.1", "other divergences would do as well", "unquantified"),
    _said("962-968", "Section 6.2.1, displays", "the divergence for two classes, and the density with it", "kd:expanded"),
    _said("970-972", "Section 6.2.1, display", "the normaliser is one over a product of integrals", "kd:density:inputs"),
    _said("974-976", "Section 6.2.1, display", "the integral is a Beta function", "kd:integral"),
    _said("978-980", "Section 6.2.1", "the normaliser and the density", "kd:density", "kd:density:inputs"),
    _said(
        "982",
        "Section 6.2.1",
        "log(2 psi)/2 stands for minus the normaliser's logarithm",
        "kd:regulariser",
        "kd:regulariser:slope",
        "kd:regulariser:certain",
    ),
    _said(
        "984-986",
        "Section 6.2.2",
        "local training of unsampled clients costs no privacy: the bound holds whatever theta_i is",
        "thm7:valid",
    ),
    _passed("988-999", "Section 6.2.2, Algorithm 6, lines 1-8", "parameters, sampling, broadcast", "definition"),
    _said(
        "1000-1009",
        "Section 6.2.2, Algorithm 6, lines 9-18",
        "gradients and updates of both kinds of clients",
        "alg6",
        "alg5:positive",
    ),
    _said("1010-1013", "Section 6.2.2, Algorithm 6, lines 19-22", "what is sent and averaged", "alg6:server"),
    _passed("1014-1017", "Section 6.2.2, Algorithm 6, lines 23-24", "end, output", "furniture"),
    _passed("1019", "Section 6.2.2", "a client that is not sampled for long comes close to local training", "unquantified"),
    _passed("1021-1023", "Section 6.3", "headings", "furniture"),
    _said("1025-1029", "Section 6.3, Theorem 7 restated", "Renyi divergence of DP-AdaPeD", "thm7:rdp", "thm7:conditions"),
    _passed("1031", "Section 6.3", "plan of the proof", "prose"),
    _said(
        "1033-1037",
        "Section 6.3, (66)",
        "the server averages the clients' copies after tau noisy, clipped iterations",
        "alg5:server",
        "alg5:updates",
    ),
    _said("1037-1039", "Section 6.3, (67)", "sensitivity of the averaged model", "thm7:sensitivity"),
    _said("1041", "Section 6.3, before (68)", "noise of the averaged model", "thm7:noise", "thm7:averaged"),
    _said("1041-1043", "Section 6.3, (68)", "Renyi divergence of a round, of mu", "thm7:conditions", "thm7:rdp"),
    _said("1045-1047", "Section 6.3, (69)", "and of psi", "thm7:rdp"),
    _said("1049", "Section 6.3", "both, and all rounds, add up", "lemma3", "thm7:rdp"),
    _passed("1051-1116", "References", "references, heading and contents of Appendix A", "furniture"),
)

APPENDICES = (
    _passed("1118-1120", "Appendix A.1", "what is defined", "prose"),
    _passed("1122-1126", "Appendix A.1, Definition 1, (1)", "local differential privacy", "definition"),
    _passed("1128", "Appendix A.1", "neighbours differ in one record", "definition"),
    _passed(
        "1130-1136", "Appendix A.1, Definition 2, (2)", "differential privacy (e^eps0 is printed for e^eps)", "definition"
    ),
    _said("1138-1145", "Appendix A.1, Definition 3", "Renyi differential privacy", "def3"),
    _said("1147-1149", "Appendix A.2", "Lemma 2 is the best conversion known to the authors", "lemma2:best"),
    _said("1151-1156", "Appendix A.2, Lemma 2", "eps for a given delta", "lemma2:eps"),
    _said("1157-1158", "Appendix A.2, Lemma 2", "delta for a given eps", "lemma2:delta"),
    _said("1160-1164", "Appendix A.2, Lemma 3", "adaptive composition", "lemma3"),
    _passed("1166-1170", "Appendix A.3", "users, data sets, neighbours by a distance", "definition"),
    _said("1172", "Appendix A.3", "item-level and user-level privacy are the same for single items", "neighbours"),
    _passed("1174-1176", "Appendix A.3", "user-level local privacy", "definition"),
    _said("1178-1180", "Appendix B", "the discrete model is a Gaussian mixture of variance 0", "discrete:limit"),
    _passed("1182-1184", "Appendix B, (3)", "the linear model (of m samples, where n is meant)", "definition"),
    _passed("1186", "Appendix B", "noise, and a discrete law of the parameters", "definition"),
    _said("1188", "Appendix B", "the goal is to solve (12)", "alg7:map"),
    _passed("1190", "Appendix B", "Algorithm 7 is that of another paper with clustering in place of aggregation", "cited"),
    _said(
        "1192",
        "Appendix B, Description of Algorithm 7",
        "the start is the optimal estimate without prior knowledge",
        "alg7:start",
    ),
    _said("1192", "Appendix B, Description of Algorithm 7", "the client's update", "alg7"),
    _said("1194-1198", "Appendix B, Algorithm 7, line 1, index (0)", "start from least squares", "alg7:start"),
    _passed(
        "1199-1202",
        "Appendix B, Algorithm 7, lines 2-5",
        "what clients receive (mu_k of index t, where t - 1 is meant)",
        "definition",
    ),
    _said("1203-1204", "Appendix B, Algorithm 7, line 6", "the client's update", "alg7", "alg7:map", "discrete:limit"),
    _passed("1205-1213", "Appendix B, Algorithm 7, lines 7-13", "the server clusters and broadcasts; output", "definition"),
)

ITEMS = (*SECTION_3, *SECTION_4, *SECTION_6, *APPENDICES)
