"""What the paper says, line by line, and which claims judge it: the main part.

Belongs here: the items of Sections 1 to 6, and all of them joined. Does not belong here: the appendices
(inventory_appendix.py), claims.
"""

from theory.engine.inventory import Item
from theory.papers.fedhdp.inventory_appendix import APPENDIX

TEXT = "635b05a47f046f62"

INTRODUCTION = (
    Item(lines="1-12", place="Title", what="title and authors", reason="furniture"),
    Item(lines="14", place="Abstract", what="private FL, heterogeneous privacy, what is proposed", reason="prose"),
    Item(
        lines="14",
        place="Abstract",
        what="with privacy each client's optimal solution is a personalised one, even for homogeneous data",
        claims=("fedhdp:personal",),
    ),
    Item(
        lines="14",
        place="Abstract",
        what="without privacy and for homogeneous data one global solution, FedAvg's, is optimal for all",
        claims=("fedhdp:table1", "fedhdp:table4:a"),
    ),
    Item(
        lines="14",
        place="Abstract",
        what="the gain from clients that opt for less stringent guarantees is characterised",
        claims=("fedhdp:lemma7:eq79", "fedhdp:lemma7:eq80"),
    ),
    Item(
        lines="14",
        place="Abstract",
        what="FedHDP gains up to 9.27% over DP-FL where 5% opt out; local models of the others are up to 3.49% worse",
        claims=("fedhdp:tables:gains",),
        quotes=("9.27%", "3.49%", "5%"),
    ),
    Item(lines="16-18", place="Section 1", what="federated learning and its literature", reason="cited"),
    Item(
        lines="20",
        place="Section 1",
        what="DP at several granularities; a smaller budget degrades performance; earlier works",
        reason="cited",
    ),
    Item(lines="22", place="Section 1", what="earlier works on heterogeneous privacy", reason="cited"),
    Item(lines="24", place="Section 1", what="heterogeneity in FL; what this paper studies", reason="prose"),
    Item(
        lines="24",
        place="Section 1",
        what="personalisation can give good, even optimal, models under heterogeneous DP",
        claims=("fedhdp:lemma3:bayes",),
    ),
    Item(lines="26-30", place="Section 1, contributions", what="organisation, the proposed setup", reason="prose"),
    Item(
        lines="34",
        place="Section 1, contributions",
        what="the algorithm extends the Bayes optimal solution",
        claims=("fedhdp:thm5", "fedhdp:alg2"),
    ),
    Item(
        lines="28",
        place="Section 1, contributions",
        what="clients with less strict requirements improve the global model for all clients",
        claims=("fedhdp:optout-helps:server", "fedhdp:global-helps"),
    ),
    Item(
        lines="32",
        place="Section 1, contributions",
        what="the Bayes solution needs personalisation even with homogeneous DP; footnote: homogeneous means IID",
        claims=("fedhdp:personal", "fedhdp:table4:c"),
    ),
    Item(lines="34-36", place="Section 1, contributions", what="Sections 4 and 5 in brief", reason="prose"),
    Item(
        lines="36",
        place="Section 1, contributions",
        what="experiments show significant gains over DP-FedAvg and stronger variants",
        reason="training",
    ),
)

SECTION_2 = (
    Item(
        lines="38-42", place="Section 2", what="federated learning: clients, losses, rounds, averaging", reason="definition"
    ),
    Item(
        lines="44",
        place="Section 2",
        what="clipping to norm S and noise z^2 (S/qN)^2 I on the average give client-level DP; rounds are accounted for",
        claims=("fedhdp:dp-noise",),
    ),
    Item(
        lines="44",
        place="Section 2",
        what="the noise may be added by clients if the aggregate has the desired variance",
        claims=("fedhdp:eq11",),
    ),
    Item(lines="44", place="Section 2", what="the moment accountant gives tighter parameters", reason="cited"),
    Item(
        lines="46",
        place="Section 2",
        what="norms may grow or shrink, training may slow down; adaptive clipping; names of the baselines",
        reason="cited",
    ),
    Item(lines="48-52", place="Section 2", what="DP-FedAvg gives one level to all; what follows", reason="prose"),
    Item(
        lines="54-62",
        place="Section 2, (1), (2)",
        what="guarantees per client compose in parallel to the largest eps and delta",
        claims=("fedhdp:eq1-3",),
    ),
    Item(
        lines="62-66",
        place="Section 2, (3)",
        what="sets of clients with one level each; the guarantee of a set",
        claims=("fedhdp:eq1-3",),
    ),
    Item(
        lines="68",
        place="Section 2",
        what="DP-FedAvg must use the strictest level for all; per set the own level is enough",
        claims=("fedhdp:eq1-3",),
    ),
    Item(
        lines="70-76",
        place="Section 2, (Local Bayes obj.), (Local personalized federated obj.)",
        what="objectives of server and clients",
        reason="definition",
    ),
    Item(
        lines="78",
        place="Section 2",
        what="personalised models perform better on local data; what follows",
        reason="unquantified",
    ),
)

SECTION_3 = (
    Item(lines="80-84", place="Section 3", what="what the section studies", reason="prose"),
    Item(
        lines="82-84",
        place="Section 3",
        what="the solution is Bayes optimal for server and clients at the right hyperparameters",
        claims=("fedhdp:thm5",),
    ),
    Item(
        lines="86-93",
        place="Section 3.1, (4), (Local Bayes obj.)",
        what="linear regression model, Bayes objectives",
        reason="definition",
    ),
    Item(
        lines="95-99",
        place="Section 3.1, (5), (Local FedHDP obj.)",
        what="objectives of FedHDP at the server and at a client",
        reason="definition",
    ),
    Item(
        lines="101",
        place="Section 3.1",
        what="a larger lambda steers to the global model, a smaller one to the local model",
        claims=("fedhdp:eq44",),
    ),
    Item(
        lines="103-119",
        place="Section 3.1, Algorithm 1",
        what="the client's lines: local step, personal step with theta in the penalty",
        claims=("fedhdp:alg1",),
    ),
    Item(
        lines="106-111",
        place="Algorithm 1, server",
        what="the server weighs messages by 1 and r",
        claims=("fedhdp:alg2", "fedhdp:lemma6:rstar"),
    ),
    Item(
        lines="118",
        place="Algorithm 1, psi line",
        what="private clients add noise of variance (1 - rho_np) N gamma^2",
        claims=("fedhdp:eq11",),
    ),
    Item(
        lines="121-125",
        place="Section 3.1.1",
        what="private and non-private clients; the baseline DP-FedAvg",
        reason="definition",
    ),
    Item(
        lines="127",
        place="Section 3.1.1",
        what="HDP-FedAvg adds no noise to non-private updates and is a stronger variant of DP-FedAvg",
        claims=("fedhdp:lemma7:eq81",),
    ),
    Item(lines="129", place="Section 3.1.1", what="parameters of FedHDP; what is analysed", reason="definition"),
    Item(lines="131-133", place="Section 3.1.2", what="what the server aims at; the ratio r", reason="definition"),
    Item(
        lines="133",
        place="Section 3.1.2",
        what="the optimal aggregator is the weighted average; non-private clients get more weight; Bayes optimality",
        claims=("fedhdp:lemma1", "fedhdp:lemma2:weights", "fedhdp:lemma2:rstar", "fedhdp:r-le-1"),
    ),
    Item(
        lines="135-137",
        place="Section 3.1.3",
        what="FedHDP attains the local Bayes objective, which is the best possible without FL's constraints",
        claims=("fedhdp:lemma3:bayes", "fedhdp:thm5"),
    ),
    Item(
        lines="137",
        place="Section 3.1.3",
        what="the strengths of private and non-private clients differ",
        claims=("fedhdp:thm8:np", "fedhdp:thm8:p", "fedhdp:lambda-order"),
    ),
    Item(
        lines="139-142",
        place="Section 3.1.3, Table 1",
        what="special cases: FedAvg, Ditto, DP-FedAvg with Ditto",
        claims=("fedhdp:table1",),
    ),
    Item(lines="144", place="Section 3.1.3", what="Theorem 5 states the optimality of both", claims=("fedhdp:thm5",)),
    Item(
        lines="146",
        place="Section 3.1.3, Remark",
        what="how FedHDP differs from Ditto: aggregation, whose performance counts, what the server knows",
        reason="unquantified",
    ),
    Item(
        lines="146",
        place="Section 3.1.3, Remark",
        what="FedHDP recovers Ditto as a special case",
        claims=("fedhdp:table1", "fedhdp:table4:b"),
    ),
    Item(
        lines="148-150",
        place="Section 3.1.4",
        what="a better global estimate helps clients even without personalisation",
        claims=("fedhdp:global-helps",),
    ),
    Item(lines="152-153", place="Figure 1", what="risks against lambda; no numbers are given", reason="unpublished"),
    Item(
        lines="155",
        place="Section 3.1.4",
        what="opting out helps the server",
        claims=("fedhdp:optout-helps:server",),
    ),
    Item(
        lines="155",
        place="Section 3.1.4",
        what="clients that opt out get better estimates than those that remain private",
        claims=("fedhdp:optout-helps",),
    ),
    Item(
        lines="157",
        place="Section 3.1.4",
        what="a client improves by opting out, with both algorithms; remaining private costs performance",
        claims=("fedhdp:optout-helps:same-client", "fedhdp:optout-helps:hdp"),
    ),
    Item(
        lines="157",
        place="Section 3.1.4",
        what="FedHDP at r* greatly outperforms HDP-FedAvg+Ditto",
        claims=("fedhdp:beats-hdp",),
    ),
    Item(
        lines="157",
        place="Section 3.1.4",
        what="lambda_np* is always at least lambda_p*, because r is at most 1",
        claims=("fedhdp:lambda-order",),
    ),
    Item(lines="159-161", place="Section 3.2", what="what the appendices hold", reason="prose"),
    Item(
        lines="163",
        place="Section 3.2",
        what="the optimal hyperparameters with two levels",
        claims=("fedhdp:lemma2:rstar", "fedhdp:lemma3:lambda"),
    ),
    Item(
        lines="165",
        place="Section 3.2",
        what="beyond two levels FedHDP attains the optimum with other weights and strengths",
        claims=("fedhdp:eq64", "fedhdp:levels:lambda", "fedhdp:levels:bayes"),
    ),
)

SECTION_4 = (
    Item(lines="167-169", place="Section 4", what="from the simplified setting to the general algorithm", reason="prose"),
    Item(
        lines="169",
        place="Section 4",
        what="a Bayes optimal solution was found in the simplified setting",
        claims=("fedhdp:thm5",),
    ),
    Item(
        lines="171-206",
        place="Section 4, Algorithm 2",
        what="lines of server and client, clipping, adaptive clipping",
        claims=("fedhdp:alg2",),
    ),
    Item(lines="208", place="Section 4", what="notation", reason="definition"),
    Item(lines="210", place="Section 4", what="the two steps of the aggregation in words", claims=("fedhdp:alg2",)),
    Item(
        lines="210",
        place="Section 4",
        what="updates with less strict privacy get more weight",
        claims=("fedhdp:r-le-1",),
    ),
    Item(
        lines="212",
        place="Section 4",
        what="weights N_1/(N_1 + r N_2) and r N_2/(N_1 + r N_2)",
        claims=("fedhdp:alg2",),
    ),
    Item(lines="212", place="Section 4", what="r is bounded by 0 and 1", claims=("fedhdp:r-le-1",)),
    Item(
        lines="212",
        place="Section 4",
        what="lower budgets need more noise and lead to a lower r",
        claims=("fedhdp:r-falls",),
    ),
    Item(
        lines="212",
        place="Section 4",
        what="r should be higher where all non-private clients have the same digit",
        reason="training",
    ),
    Item(lines="214", place="Section 4", what="personalisation in training; the accountant's bounds", reason="prose"),
    Item(lines="214", place="Section 4", what="the accountant gives tighter bounds per set", reason="cited"),
)

SECTION_5 = (
    Item(lines="216-218", place="Section 5", what="baselines, tuning", reason="setting"),
    Item(
        lines="218",
        place="Section 5",
        what="FedHDP is Bayes optimal on a class of linear problems; HDP-FedAvg is its case r = 1",
        claims=("fedhdp:thm5", "fedhdp:beats-hdp"),
    ),
    Item(
        lines="218",
        place="Section 5",
        what="FedHDP outperforms the baselines with the right r and lambda, globally and locally",
        claims=("fedhdp:tables:better",),
    ),
    Item(
        lines="220-222",
        place="Section 5.1",
        what="data sets, numbers of clients, shares sampled per round",
        reason="setting",
        quotes=("5%", "3%"),
    ),
    Item(
        lines="222",
        place="Section 5.1",
        what="a library computes the privacy loss incurred",
        claims=("fedhdp:dp-noise",),
    ),
    Item(
        lines="224",
        place="Section 5.1, Remark",
        what="""optimal r and lambda are not straightforward to compute for networks; tuning lambda locally costs no privacy;
            the loss from tuning r is not counted""",
        reason="unquantified",
    ),
    Item(
        lines="226-228",
        place="Section 5.2",
        what="5% of the clients are non-private, how they are chosen",
        reason="setting",
        quotes=("5%",),
    ),
    Item(
        lines="230-275",
        place="Section 5.2, Table 2 and Table 3",
        what="accuracies",
        reason="training",
    ),
    Item(
        lines="230-275",
        place="Section 5.2, Table 2 and Table 3",
        what="columns of differences",
        claims=("fedhdp:tables:delta",),
    ),
    Item(
        lines="231-264",
        place="Section 5.2, Table 2 and Table 3, headers",
        what="privacy parameters of the data sets",
        claims=("fedhdp:dp-noise",),
    ),
    Item(
        lines="276-290",
        place="Section 5.2, measures",
        what="what the columns are",
        reason="definition",
    ),
    Item(
        lines="290",
        place="Section 5.2, measures",
        what="the gains are differences of two accuracies",
        claims=("fedhdp:tables:delta",),
    ),
    Item(lines="292", place="Section 5.2", what="which results are shown", reason="setting"),
    Item(
        lines="294",
        place="Section 5.2",
        what="FedHDP learns better global and better personalised models than the other baselines",
        claims=("fedhdp:tables:better",),
    ),
    Item(
        lines="294",
        place="Section 5.2",
        what="gains of up to 9.27% (global), 9.99% (local), 3.49% (from opting out), 12.4% (global model, local data)",
        claims=("fedhdp:tables:gains",),
        quotes=("9.27%", "9.99%", "3.49%", "12.4%"),
    ),
    Item(
        lines="296-298",
        place="Section 6",
        what="what the paper did",
        reason="prose",
    ),
    Item(
        lines="298",
        place="Section 6",
        what="optimality for server and clients",
        claims=("fedhdp:thm5",),
    ),
    Item(
        lines="298",
        place="Section 6",
        what="personalisation is necessary whenever data are heterogeneous, privacy is required, or both",
        claims=("fedhdp:personal",),
    ),
    Item(
        lines="298",
        place="Section 6",
        what="FedHDP outperforms the private baseline; the cost of stricter privacy",
        claims=("fedhdp:tables:better", "fedhdp:tables:gains"),
    ),
    Item(lines="300-362", place="Acknowledgement and references", what="thanks, references", reason="furniture"),
)

ITEMS = (*INTRODUCTION, *SECTION_2, *SECTION_3, *SECTION_4, *SECTION_5, *APPENDIX)
