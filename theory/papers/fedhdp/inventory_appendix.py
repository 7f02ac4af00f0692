"""What the paper says, line by line, and which claims judge it: Appendices A to D.

Belongs here: the items of the appendices. Does not belong here: the main part (inventory.py), claims.
"""

from theory.engine.inventory import Item

SETUP = (
    Item(lines="364-378", place="Appendix A", what="contents of the appendices", reason="prose"),
    Item(lines="366-378", place="Appendix A", what="optimality of FedHDP is shown", claims=("fedhdp:thm5",)),
    Item(
        lines="380-392",
        place="Appendix A.1, (6), (7), (8)",
        what="model, heterogeneity tau^2, loss",
        reason="definition",
    ),
    Item(
        lines="394-398",
        place="Appendix A.1, (9)",
        what="the least-squares estimate and its law",
        claims=("fedhdp:eq9",),
    ),
    Item(
        lines="398-402",
        place="Appendix A.1, (10)",
        what="the loss is translated to half a squared distance",
        claims=("fedhdp:eq10",),
    ),
    Item(
        lines="402-406",
        place="Appendix A.1, (11)",
        what="messages, noise moved to the clients, and what the server then sees",
        claims=("fedhdp:eq11",),
    ),
    Item(
        lines="408-414",
        place="Appendix A.1, (12), (Local Bayes obj.)",
        what="objectives of server and client",
        reason="definition",
    ),
    Item(
        lines="416-423",
        place="Appendix A.1, (15), (18), (21)",
        what="covariance of a message",
        claims=("fedhdp:eq21",),
    ),
    Item(lines="425", place="Appendix A.1", what="what follows", reason="prose"),
    Item(lines="425", place="Appendix A.1", what="optimality is discussed next", claims=("fedhdp:thm5",)),
    Item(lines="427-431", place="Appendix A.2, (22)", what="objective of FedHDP's server", reason="definition"),
    Item(
        lines="433",
        place="Appendix A.2",
        what="what the server aims at; the solution of (22) is the Bayes optimum",
        claims=("fedhdp:lemma2:weights",),
    ),
)

SERVER = (
    Item(
        lines="435-445",
        place="Appendix A.2, Lemma 1, (23), (24)",
        what="posterior of the centre from independent observations",
        claims=("fedhdp:lemma1",),
    ),
    Item(
        lines="447-455",
        place="Appendix A.2, Lemma 2, (27)",
        what="Bayes optimal weights",
        claims=("fedhdp:lemma2:weights",),
    ),
    Item(lines="455-457", place="Appendix A.2, Lemma 2, (28)", what="optimal ratio", claims=("fedhdp:lemma2:rstar",)),
    Item(
        lines="459-461",
        place="Appendix A.2, Lemma 2, (29)",
        what="covariance of the error",
        claims=("fedhdp:lemma2:cov",),
    ),
    Item(
        lines="462-468",
        place="Proof of Lemma 2, (30)",
        what="the server's estimate, with p_theta added",
        claims=("fedhdp:eq30",),
    ),
    Item(
        lines="468-477",
        place="Proof of Lemma 2, (31), (32), (33)",
        what="its covariance, and that r* attains it",
        claims=("fedhdp:eq30", "fedhdp:lemma2:cov", "fedhdp:lemma2:rstar"),
    ),
)

CLIENT = (
    Item(
        lines="479-483",
        place="Appendix A.3, (Local FedHDP obj.)",
        what="how FedHDP differs from Ditto; the client's objective",
        reason="definition",
    ),
    Item(
        lines="485-489",
        place="Appendix A.3, (34)",
        what="the client's estimate of phi from the others, with p added",
        claims=("fedhdp:eq34",),
    ),
    Item(
        lines="489-495",
        place="Appendix A.3, (35), (36), (37)",
        what="its variance",
        claims=("fedhdp:eq37",),
    ),
    Item(
        lines="495-500",
        place="Appendix A.3, (38), (39)",
        what="the client's Bayes estimate from two sources, with p added",
        claims=("fedhdp:eq39",),
    ),
    Item(lines="500-503", place="Appendix A.3, (40), (41)", what="its variance", claims=("fedhdp:eq41",)),
    Item(
        lines="505-508",
        place="Appendix A.3, (42)",
        what="its coefficients, with p added",
        claims=("fedhdp:eq42",),
    ),
    Item(
        lines="510-515",
        place="Appendix A.3, (43), (44)",
        what="the personalised estimate as a combination of messages",
        claims=("fedhdp:eq44",),
    ),
    Item(
        lines="517-523",
        place="Appendix A.3, Lemma 3, (47)",
        what="the optimal strengths, Bayes optimality",
        claims=("fedhdp:lemma3:lambda", "fedhdp:lemma3:bayes"),
    ),
    Item(
        lines="525-529",
        place="Proof of Lemma 3, (48)",
        what="the strength minimises a conditional expectation",
        claims=("fedhdp:eq48",),
    ),
    Item(
        lines="531-533",
        place="Proof of Lemma 3, (49)",
        what="strength that matches the own coefficient",
        claims=("fedhdp:eq49",),
    ),
    Item(
        lines="534-535",
        place="Proof of Lemma 3, (50), (51)",
        what="strengths that match the others' coefficients",
        claims=("fedhdp:eq50", "fedhdp:eq51"),
    ),
    Item(
        lines="536-538",
        place="Proof of Lemma 3, (52)",
        what="the average of the three, and that it gives (47)",
        claims=("fedhdp:eq52", "fedhdp:lemma3:lambda"),
    ),
    Item(
        lines="540-542",
        place="Appendix A.3, after Lemma 3, first bullet",
        what="r to 1",
        claims=("fedhdp:lemma3:limit-r1",),
    ),
    Item(
        lines="544",
        place="Appendix A.3, after Lemma 3, second bullet",
        what="N_2 to N",
        claims=("fedhdp:lemma3:limit-N2",),
    ),
    Item(
        lines="546",
        place="Appendix A.3, after Lemma 3, third bullet",
        what="alpha^2 to 0",
        claims=("fedhdp:lemma3:limit-alpha0",),
    ),
    Item(
        lines="548",
        place="Appendix A.3, after Lemma 3, fourth bullet",
        what="tau^2 to 0",
        claims=("fedhdp:lemma3:limit-tau0",),
    ),
    Item(
        lines="550-568",
        place="Appendix A.4, Lemma 4, (53), (54)",
        what="one step converges, later rounds change nothing",
        claims=("fedhdp:lemma4",),
    ),
    Item(
        lines="570-583",
        place="Appendix A.4, Theorem 5, (55), (58)",
        what="optimality for the server and every client",
        claims=("fedhdp:thm5",),
    ),
    Item(lines="585-586", place="Figure 2", what="risks against lambda; no numbers are given", reason="unpublished"),
    Item(lines="588-590", place="Appendix A.5", what="the special case of opting out", reason="definition"),
    Item(
        lines="590",
        place="Appendix A.5",
        what="FedHDP outperforms HDP-FedAvg; remaining private costs",
        claims=("fedhdp:beats-hdp", "fedhdp:optout-helps:same-client", "fedhdp:optout-helps"),
    ),
)

LEVELS = (
    Item(lines="592-594", place="Appendix A.6", what="l privacy levels, each of more than one client", reason="definition"),
    Item(
        lines="594",
        place="Appendix A.6",
        what="this contains the case of one level per client",
        claims=("fedhdp:levels:general",),
    ),
    Item(lines="596-598", place="Appendix A.6, (59)", what="covariance of a message", claims=("fedhdp:eq21",)),
    Item(
        lines="600-604",
        place="Appendix A.6, (60)",
        what="the server's estimate, with p added",
        claims=("fedhdp:eq60",),
    ),
    Item(lines="604-606", place="Appendix A.6, (61)", what="its variance", claims=("fedhdp:eq61",)),
    Item(
        lines="608-614",
        place="Appendix A.6, (62), (63)",
        what="weights from ratios",
        claims=("fedhdp:eq63",),
    ),
    Item(
        lines="616-618",
        place="Appendix A.6, (64)",
        what="l ratios to tune; their optimal values",
        claims=("fedhdp:eq64",),
    ),
    Item(
        lines="620-624",
        place="Appendix A.6, (65)",
        what="phi from the others' messages, with p added",
        claims=("fedhdp:eq72",),
    ),
    Item(
        lines="624-632",
        place="Appendix A.6, (66), (67), (68), (71)",
        what="its variance; sizes without client j",
        claims=("fedhdp:eq68",),
    ),
    Item(
        lines="634-636",
        place="Appendix A.6, (72)",
        what="the same with products",
        claims=("fedhdp:eq72",),
    ),
    Item(
        lines="638-640",
        place="Appendix A.6, (73)",
        what="Bayes estimate from two sources, with p added",
        claims=("fedhdp:eq73",),
    ),
    Item(lines="642-644", place="Appendix A.6, (74)", what="its variance", claims=("fedhdp:eq74",)),
    Item(
        lines="646-648",
        place="Appendix A.6, (75)",
        what="its coefficients, with p added",
        claims=("fedhdp:eq75",),
    ),
    Item(
        lines="650-655",
        place="Appendix A.6, (76), (77)",
        what="the personalised estimate as a combination of messages",
        claims=("fedhdp:eq77",),
    ),
    Item(
        lines="655",
        place="Appendix A.6",
        what="l + 1 terms in (75) and (77) give lambda_j*; its closed form is called involved",
        claims=("fedhdp:levels:lambda", "fedhdp:levels:bayes"),
    ),
)

POINT = (
    Item(lines="657-659", place="Appendix B", what="point estimation as the case d = 1", reason="definition"),
    Item(lines="659", place="Appendix B", what="optimality of the global estimate follows", claims=("fedhdp:lemma6:rstar",)),
    Item(
        lines="661-677",
        place="Appendix B, Algorithm 3",
        what="the client's lines: local step, personal step with theta in the penalty",
        claims=("fedhdp:alg3",),
    ),
    Item(
        lines="664-676",
        place="Algorithm 3, server and psi line",
        what="weights 1 and r; noise of private clients",
        claims=("fedhdp:alg2", "fedhdp:eq11"),
    ),
    Item(
        lines="678-685",
        place="Appendix B, Lemma 6, (78)",
        what="optimal ratio and variance with opt-out",
        claims=("fedhdp:lemma6:rstar", "fedhdp:lemma6:var"),
    ),
    Item(
        lines="687",
        place="Appendix B, Figures 3 and 4",
        what="r* minimises the server's variance; FedHDP is better than FedAvg (the text says Figure 5 for Figure 4)",
        claims=("fedhdp:lemma6:rstar", "fedhdp:lemma7:eq79"),
        quotes=(),
    ),
    Item(lines="689-690", place="Figure 3", what="server variance against r; no numbers are given", reason="unpublished"),
    Item(
        lines="692-698",
        place="Appendix B, Lemma 7, (79)",
        what="gap of HDP-FedAvg to the optimum",
        claims=("fedhdp:lemma7:eq79",),
    ),
    Item(
        lines="699",
        place="Appendix B, Lemma 7, (80)",
        what="gap of DP-FedAvg to the optimum",
        claims=("fedhdp:lemma7:eq80",),
    ),
    Item(
        lines="700",
        place="Appendix B, Lemma 7, (81)",
        what="gap of DP-FedAvg to HDP-FedAvg",
        claims=("fedhdp:lemma7:eq81",),
    ),
    Item(
        lines="702",
        place="Appendix B, after Lemma 7",
        what="rho_np to 0 and to 1: the gap vanishes",
        claims=("fedhdp:lemma7:edges", "fedhdp:lemma7:limits"),
    ),
    Item(
        lines="702",
        place="Appendix B, after Lemma 7",
        what="N to infinity: gaps of (1-rho)^2 gamma^2 and (1-rho) gamma^2, vanishing optimal error",
        claims=("fedhdp:lemma7:limits",),
    ),
    Item(
        lines="702",
        place="Appendix B, after Lemma 7",
        what="gamma^2 to infinity: unbounded gaps, bounded optimal error, from the non-private clients alone",
        claims=("fedhdp:lemma7:large-noise",),
    ),
    Item(
        lines="704-717",
        place="Appendix B, Theorem 8, (82), (83)",
        what="optimal strengths with opt-out",
        claims=("fedhdp:thm8:np", "fedhdp:thm8:p"),
    ),
    Item(
        lines="719",
        place="Appendix B, Figure 5",
        what="a client's opting out in point estimation",
        claims=("fedhdp:optout-helps:same-client",),
    ),
    Item(lines="721-724", place="Figures 4 and 5: Figure 4, Figure 5", what="no numbers are given", reason="unpublished"),
    Item(
        lines="726",
        place="Appendix B",
        what="strengths differ between private and non-private clients",
        claims=("fedhdp:lambda-order", "fedhdp:thm8:p"),
    ),
    Item(
        lines="728-731",
        place="Appendix B, Table 4",
        what="special cases of the strength",
        claims=("fedhdp:table4:a", "fedhdp:table4:b", "fedhdp:table4:c", "fedhdp:table4:d"),
    ),
    Item(
        lines="733",
        place="Appendix B, text after Table 4",
        what="homogeneous data without privacy: FedAvg",
        claims=("fedhdp:table4:a",),
    ),
    Item(
        lines="735",
        place="Appendix B, text after Table 4",
        what="heterogeneous data without privacy: Ditto",
        claims=("fedhdp:table4:b",),
    ),
    Item(
        lines="737",
        place="Appendix B, text after Table 4",
        what="homogeneous data and privacy: personalisation is needed; much noise: local learning",
        claims=("fedhdp:table4:c", "fedhdp:personal", "fedhdp:table4:noise"),
    ),
    Item(
        lines="739",
        place="Appendix B, text after Table 4",
        what="heterogeneous data and privacy; much noise: local learning",
        claims=("fedhdp:table4:d", "fedhdp:table4:noise"),
    ),
)

EXPERIMENTS = (
    Item(lines="741-743", place="Appendix C", what="what the appendix shows", reason="prose"),
    Item(
        lines="745-749",
        place="Appendix C, Table 5",
        what="data sets, clients, shares, tasks",
        reason="setting",
        quotes=("5%", "3%"),
    ),
    Item(
        lines="745-749",
        place="Appendix C, Table 5",
        what="shares per round, from which the budgets follow",
        claims=("fedhdp:dp-noise",),
    ),
    Item(
        lines="750-767",
        place="Appendix C, Table 6",
        what="layers and their sizes",
        claims=("fedhdp:table6",),
    ),
    Item(
        lines="750-767",
        place="Appendix C, Table 6",
        what="activations, dropout",
        reason="setting",
        quotes=("25%", "50%"),
    ),
    Item(lines="768-777", place="Appendix C, Table 7", what="hyperparameters", reason="setting"),
    Item(
        lines="777",
        place="Appendix C, Table 7",
        what="effective noise multipliers, from which the budgets follow",
        claims=("fedhdp:dp-noise",),
    ),
    Item(lines="779", place="Appendix C", what="500 rounds, test data, how the tables are made", reason="setting"),
    Item(
        lines="779",
        place="Appendix C",
        what="r = 0: the server communicates with non-private clients only",
        claims=("fedhdp:tables:r0",),
    ),
    Item(
        lines="781-909",
        place="Appendix C, Table 8, Table 9, Table 10 and Table 11",
        what="accuracies",
        reason="training",
    ),
    Item(
        lines="781-909",
        place="Appendix C, Table 8, Table 9, Table 10 and Table 11",
        what="columns of differences",
        claims=("fedhdp:tables:delta",),
    ),
    Item(
        lines="781-877",
        place="Appendix C, Table 8, Table 9, Table 10 and Table 11, captions",
        what="privacy parameters of the data sets",
        claims=("fedhdp:dp-noise",),
    ),
    Item(
        lines="911-917",
        place="Appendix D",
        what="impact and limitations: unfairness, neglected clipping, what is not estimable, the privacy cost of tuning r",
        reason="unquantified",
    ),
)

APPENDIX = (*SETUP, *SERVER, *CLIENT, *LEVELS, *POINT, *EXPERIMENTS)
