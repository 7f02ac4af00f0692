"""The table and the one-screen explanation that `borrow fit` prints.

Belongs here: words.  Numbers are in ``outcome``.
"""

import numpy as np

from estimators.tables.columns import printable, shortened

__all__ = ["SHOWN", "prior_report", "report"]

SHOWN = 40
"""Most rows printed; the file has all of them."""

GROUPS = 4
"""Most groups of a prior that are printed."""

FOUND = {
    "bayes": "averaged over what the data leave open",
    **dict.fromkeys(("exact", "integrated"), "averaged over what data and noise leave open"),
    "marginal-likelihood": "by maximum likelihood",
    "reml": "by restricted maximum likelihood",
    "nonparametric maximum likelihood": "by nonparametric maximum likelihood",
    "moments": "by moments",
    "naive-moments": "by naive moments, which count the noise as spread",
    "fixed": "as given",
}
"""How a prior was found, in words."""

VALUES = {"means": "values", "binomial": "probabilities", "poisson": "rates"}

NONE_SEEN = "The data show no difference between clients beyond their noise"

METHODS = {
    "integrated": "Intervals count what the clients leave unknown about the prior: they average over likely ones.",
    "bootstrap": "Intervals count what the clients leave unknown about the prior: it was learnt again from drawn data.",
    "robust": "Intervals hold on average over clients, whatever law true values have; they are around shrunken estimates "
    "of their own, which keep the most of precise clients.",
    "every-client": "Intervals hold for every client by itself, whatever its true value is; the other clients only make "
    "them shorter.",
}
"""What intervals of other methods than the posterior count."""

LESS = {
    "means": "the noisier it is, the less",
    "binomial": "the fewer its trials, the less",
    "poisson": "the smaller its exposure, the less",
    "regression": "the fewer they are, the less",
}
"""What own weights go with, where they do."""


def report(outcome):
    """Return the table and the explanation as text."""
    return "\n".join([*table(outcome), "", *explanation(outcome)])


def prior_report(made):
    """Return what is said of a prior that was released alone."""
    width = max(map(len, made.numbers))
    lines = [f"{'of all clients':{width}} {'value':>10} {'std error':>10}"]
    for name, (value, error) in made.numbers.items():
        lines.append(f"{name:{width}} {number(value):>10} {'' if error is None else number(error):>10}".rstrip())
    lines += [
        "",
        f"Learnt from {made.clients} clients, with noise for their privacy; no number about a single one is released.",
    ]
    lines.append(
        "A client's own estimate comes from its exact rows and this prior, at home (`at_home` in Python), and stays there."
    )
    lines += [f"Privacy: {line}" for line in made.lines]
    return "\n".join([*lines, *(f"Note: {note}" for note in made.notes)])


def table(outcome):
    """Return the lines of the table of clients, its middle left out if it is long."""
    repeat, total = outcome.per_client, len(outcome.mean)
    order = list(range(total))
    if outcome.ranks is not None and not outcome.coefficients:  # a league table
        order = np.argsort(outcome.ranks.expected, kind="stable").tolist()
    cut = len(order) > SHOWN
    shown = [*order[: SHOWN // 2], *order[-SHOWN // 2 :]] if cut else order
    names = [short(outcome.clients[i // repeat]) for i in shown]
    if outcome.coefficients:
        names = [f"{name} {short(outcome.coefficients[i % repeat])}" for name, i in zip(names, shown, strict=True)]
    width = max(len("client"), *map(len, names))
    titles = " ".join(f"{title:>10}" for title in ("estimate", "std error", "shrunken", "post. sd"))
    decisions = decided(outcome)
    lines = [f"{'client':{width}} {'n':>6} {titles} {'own':>5}  {decisions[0]}{outcome.level * 100:g}% interval"]
    for row, (name, i) in enumerate(zip(names, shown, strict=True)):
        if cut and row == SHOWN // 2:
            lines.append(f"... {total - SHOWN} more in estimates.csv")
        n = "-" if outcome.n is None else f"{outcome.n[i // repeat]:.6g}"
        numbers = " ".join(number(values[i]) for values in (outcome.own, outcome.error, outcome.mean, outcome.sd))
        own = "-" if outcome.weight is None or outcome.shared[i] else f"{outcome.weight[i]:.0%}"
        lines.append(
            f"{name:{width}} {n:>6} {numbers} {own:>5}  {decisions[1 + i]}[{outcome.low[i]:.4g}, {outcome.high[i]:.4g}]"
        )
    return lines


def decided(outcome):
    """Return texts between numbers and interval, a title and one for each row: ranks with intervals, discoveries."""
    found = [""] * (1 + len(outcome.mean))
    if outcome.ranks is not None:
        expected, low, high = (part.ravel() for part in (outcome.ranks.expected, outcome.ranks.low, outcome.ranks.high))
        between = [f"{a:g} to {b:g}" for a, b in zip(low, high, strict=True)]
        width = max(5, *map(len, between))
        found[0] += f"{'rank':>6} {'from':>{width}}  "
        for i, text in enumerate(between):
            found[1 + i] += f"{expected[i]:>6.1f} {text:>{width}}  "
    if outcome.discoveries is not None:
        found[0] += f"{'side':<7} {'wrong':>6}  "
        pairs = zip(outcome.sides(), outcome.discoveries.error.ravel(), outcome.discoveries.selected.ravel(), strict=True)
        for i, (side, error, selected) in enumerate(pairs):
            found[1 + i] += f"{side + ('*' if selected else ''):<7} {chance(error):>6}  "
    return found


def chance(p):
    """Return a probability in few letters, never 0 or 1 for one that is neither."""
    return (
        "<0.1%" if 0 < p < 0.0005 else ">99.9%" if 0.9995 < p < 1 else f"{100 * p:.2g}%" if p < 0.995 else f"{100 * p:.3g}%"
    )


def short(name):
    """Return a name of at most 18 characters, in one line."""
    return shortened(printable(name))


def number(value):
    """Return a number in ten columns, or a dash where there is none."""
    return f"{'-':>10}" if value != value else f"{value:10.4g}"


def explanation(outcome):
    """Return the lines that say what was borrowed from whom."""
    facts = outcome.summary()
    assumes = outcome.kind.assumes.replace(
        "a common centre", "what covariates predict" if outcome.covariates else "a common centre"
    )
    lines = [f"Model {facts['model']}: {assumes}."]
    lines += coefficients(outcome) if outcome.coefficients else centre(outcome, facts)
    lines += coefficient_intervals(outcome) if outcome.coefficients else intervals(outcome)
    lines += borrowed(outcome, facts)
    lines += league(outcome)
    lines += sure_sides(outcome)
    lines += fits(outcome)
    if facts.get("expected_squared_error_before") is not None:
        before, after = facts["expected_squared_error_before"], facts["expected_squared_error_after"]
        lines.append(
            f"Expected squared error, all clients together: {before:.4g} before, {after:.4g} after, if the model is right."
        )
    lines.append(sureness(outcome))
    lines += guarantee(outcome)
    lines += [f"Privacy: {line}" for line in outcome.privacy]
    lines += [f"Note: {note}" for note in outcome.notes]
    if not facts["converged"]:
        lines.append("The search for the prior did NOT converge; do not use these numbers.")
    return lines


def sureness(outcome):
    """Return what intervals count and what they do not."""
    if outcome.interval in METHODS:
        return METHODS[outcome.interval]
    prior = outcome.model.prior_summary()
    found, sds = prior.get("found_by"), prior.get("sds", [1.0])
    if found in ("bayes", "exact", "integrated"):
        return "Intervals count what the clients leave unknown about the prior."
    counted = outcome.model.mu_counts_ if outcome.coefficients else prior.get("mean_standard_error", 0.0) > 0
    what = "count how uncertain the centre is and take the spread" if counted else "take the prior"
    if found == "fixed":
        return f"Intervals {what} as given."
    text = f"Intervals {what} found for true; with few clients they are too short"
    if any(sds):
        return f"{text}."
    return f"{text}, and their ends are among its {len(sds)} points." if len(sds) > 1 else f"{text}: here a single point."


def guarantee(outcome):
    """Return how seldom the usual intervals could hold if the clients' values had another law than the model's."""
    if outcome.interval != "posterior" or outcome.kind.data != "means" or outcome.privacy:
        return []
    try:
        worst = outcome.model.worst_noncoverage(outcome.level)
    except ValueError:  # a single client, or vectors
        return []
    worst = float(np.mean(worst[outcome.heard]))
    return [
        f"At worst, over all laws of true values as spread as these, intervals like these miss {100 * worst:.2g}% of them, "
        f"not {100 * (1 - outcome.level):.2g}%; --interval robust holds under every law, --interval every-client for each "
        "client."
    ]


def centre(outcome, facts):
    """Return where clients lie and how much they differ."""
    prior, what = facts["prior"], VALUES[facts["data"]]
    error = prior.get("mean_standard_error")
    sure = f" (standard error {error:.2g})" if error is not None else ""
    spread = facts["spread"]
    found = FOUND.get(prior.get("found_by"), "learnt from all clients")
    if outcome.covariates:
        names = ", ".join(map(short, outcome.covariates))
        lines = [
            f"Clients of average {names} lie around {facts['centre']:.4g}{sure}; beyond what that explains, true {what} "
            f"differ by a standard deviation of {spread:.4g} ({found})."
        ]
    else:
        lines = [f"True {what} lie around {facts['centre']:.4g}{sure} with a standard deviation of {spread:.4g} ({found})."]
    groups = outcome.groups()
    if len(groups) > 1:
        texts = [f"{share:.2g} of them {'around' if sd else 'at'} {mean:.4g}" for share, mean, sd in groups[:GROUPS]]
        more = f", and {len(groups) - GROUPS} smaller groups" if len(groups) > GROUPS else ""
        lines.append(f"Their groups: {', '.join(texts)}{more}.")
    if spread == 0:
        given = prior.get("found_by") == "fixed"
        what = "what covariates predict" if outcome.covariates else "the centre"
        lines.append(("No difference between clients is assumed" if given else NONE_SEEN) + f": everyone gets {what}.")
    return lines


def coefficient_intervals(outcome):
    """Return intervals for the prior of each coefficient."""
    found, words = outcome.prior_intervals, {"mean": "centre", "sd": "standard deviation", "new client": "a new client"}
    each = [
        ", ".join(
            f"{word} [{found[name][i][0]:.4g}, {found[name][i][1]:.4g}]"
            for name, word in words.items()
            if name in found and (name == "mean" or not outcome.shared[i])
        )
        for i in range(len(outcome.coefficients))
    ]
    texts = [f"{short(name)}: {text}" for name, text in zip(outcome.coefficients, each, strict=True) if text]
    return [f"{outcome.level * 100:g}% intervals for what all share: {'; '.join(texts)}."] if texts else []


def intervals(outcome):
    """Return how sure the prior is: its slopes, and intervals for it."""
    found, level = outcome.prior_intervals, f"{outcome.level * 100:g}%"
    slopes = outcome.model.prior_summary().get("slopes", []) if outcome.covariates else []
    link = outcome.model.prior_summary().get("link")
    scale = {"logit": "log-odds", "log": "logarithm of the rate"}.get(link)
    if scale and not slopes:
        return []
    where = f" in the {scale}" if scale else ""
    lines = [
        f"One more in {short(name)} goes with {slope:+.4g}{where} ({level} interval [{low:.4g}, {high:.4g}])."
        for slope, (name, (low, high)) in zip(slopes, found.get("slopes", {}).items(), strict=True)
        if np.isfinite(high - low)
    ]
    parts = {
        "mean": f"the intercept{f' ({scale})' if scale else ''}" if slopes else "the centre",
        "sd": "the standard deviation",
        "new client": "a new client",
    }
    texts = [f"{word} [{found[name][0]:.4g}, {found[name][1]:.4g}]" for name, word in parts.items() if name in found]
    if texts:
        lines.append(f"{level} intervals for what all share: {', '.join(texts)}.")
    told = outcome.heterogeneity
    if told is not None:
        name = "Cochran's Q" if outcome.model.known_variances else "Q of residuals made normal"
        freedom = f"{told.df}" if told.residual_df is None else f"{told.df} and {told.residual_df}"
        lines.append(
            f"Of the variance of a typical estimate {told.I2:.0%} is between clients (I2); if nothing were, estimates would "
            f"differ as much with probability {told.p_value:.2g} ({name} = {told.Q:.4g}, {freedom} degrees of freedom)."
        )
    return lines + variances_of_rows(outcome.model)


def variances_of_rows(model):
    """Return what rows of clients tell of each other's variances, where these are estimated from them."""
    degrees = getattr(model, "prior_degrees_", None)
    if degrees is None:
        return []
    variance = f"{model.prior_variance_:.4g}"
    if np.isinf(degrees):
        return [f"How much rows vary does not differ between clients beyond chance: all have the variance {variance}."]
    return [
        f"How much rows vary differs between clients: each variance is drawn to {variance}, as by {degrees:.3g} rows more."
    ]


def listed(names, most=6):
    """Return names in a sentence, some of many."""
    names = [short(name) for name in names]
    return ", ".join(names) if len(names) <= most else f"{', '.join(names[:most])} and {len(names) - most} more"


def subject(outcome, words, otherwise):
    """Return what true values are, in `words` for each kind of data, and of which column if the user named it."""
    if outcome.coefficients:
        return otherwise
    return words[outcome.kind.data] + (f" of {short(outcome.measured)}" if outcome.measured else "")


def league(outcome):
    """Return who is first, and how much of the order is sure."""
    ranks = outcome.ranks
    if ranks is None:
        return []
    which = "largest" if outcome.largest_first else "smallest"
    what = subject(outcome, {"means": "value", "binomial": "probability", "poisson": "rate"}, "coefficient")
    lines = []
    if not outcome.coefficients:
        order = np.argsort(-ranks.top, kind="stable")[:3]
        likely = ", ".join(f"{short(outcome.clients[i])} {chance(ranks.top[i])}" for i in order if ranks.top[i] > 0)
        lines.append(f"Rank 1 is the {which} true {what}; most likely to have it: {likely}.")
        m = len(outcome.clients)
        halves = [
            [outcome.clients[i] for i in np.argsort(ranks.expected, kind="stable") if inside[i]]
            for inside in (ranks.high <= m / 2, ranks.low > (m + 1) / 2)
        ]
        parts = [
            f"{len(names)} surely in the {half} half ({listed(names)})"
            for names, half in zip(halves, ("first", "second"), strict=True)
            if names
        ]
        told = "; ".join(parts) if parts else "nobody is surely in one half: the data hardly order them"
        lines.append(f"Of {m} clients, by {outcome.level * 100:g}% intervals of their ranks: {told}.")
    else:
        lines.append(f"Ranks are of each {what} by itself, 1 for the {which}.")
    error = float(np.nanmax(ranks.standard_error, initial=0.0))
    how = f"counted in {ranks.draws} draws, standard error at most {error:.2g}" if error else "integrated"
    lines.append(f"Expected ranks are {how}; they lie nearer to the middle than ranks of estimates, as much is chance.")
    return lines


def sure_sides(outcome):
    """Return which clients are surely above or below, and how many of them wrongly."""
    found = outcome.discoveries
    if found is None:
        return []
    place = f"{found.at:.4g}" + (" (the centre)" if not outcome.coefficients and found.at == outcome.centre else "")
    what = subject(outcome, VALUES, "coefficients")
    chosen, way = found.selected.ravel(), found.direction.ravel()
    names = [client for client in outcome.clients for _ in range(outcome.per_client)]
    if outcome.coefficients:
        names = [f"{name} {outcome.coefficients[i % outcome.per_client]}" for i, name in enumerate(names)]
    if not chosen.any():
        least = chance(found.error.min())
        return [
            f"No discoveries (*): if at most {100 * found.alpha:g}% of calls may be wrong, nobody can be called above or "
            f"below {place}; the surest call is wrong with probability {least}."
        ]
    parts = []
    for sign, word in ((1, "above"), (-1, "below")):
        some = [names[i] for i in np.argsort(found.error.ravel(), kind="stable") if chosen[i] and way[i] == sign]
        if some:
            parts.append(f"{len(some)} {word} ({listed(some)})")
    return [
        f"Discoveries (*), true {what} against {place}: {', '.join(parts)}; of these calls {chance(found.false_rate)} are "
        f"expected to be wrong, {100 * found.alpha:g}% were allowed."
    ]


def fits(outcome):
    """Return whether the estimates go with the prior."""
    check = outcome.check
    if check is None:
        return []
    odd = [
        f"{100 * level:g}% quantile {seen:.4g}, not in [{low:.4g}, {high:.4g}]"
        for level, seen, low, high in zip(check.levels, check.observed, check.low, check.high, strict=True)
        if not low <= seen <= high
    ]
    verdict = "go badly with" if check.p_value < 0.01 else "may not go with" if check.p_value < 0.05 else "go with"
    line = (
        f"Check: the clients' own estimates {verdict} what the prior predicts (Kolmogorov-Smirnov distance "
        f"{check.statistic:.2g}, p = {check.p_value:.2g})"
    )
    line += f"; out of the ordinary: {'; '.join(odd)}." if odd else "."
    return [line, *([f"About this check: {check.note}."] if check.note else [])]


def coefficients(outcome):
    """Return the mean and the spread of each coefficient, within groups and between them, and what all clients share."""
    prior, model = outcome.model.prior_summary(), outcome.model
    sds = prior.get("sd", [float("nan")] * len(outcome.coefficients))
    within, between = prior.get("sd_within_groups", sds), prior.get("sd_between_groups")
    shared, group = outcome.shared[: outcome.per_client], short(outcome.grouped or "group")
    own, same = [], []
    for j, (name, mean) in enumerate(zip(outcome.coefficients, prior["mean"], strict=True)):
        if shared[j]:
            error = outcome.sd[j] if model.blind_[j] else np.sqrt(model.mu_covariance_[j, j])
            same.append(f"{name} {mean:.4g}" + (f" (standard error {error:.2g})" if error else ""))
        elif between is None:
            own.append(f"{name} around {mean:.4g}, sd {sds[j]:.4g}")
        else:
            own.append(
                f"{name} around {mean:.4g}, sd {within[j]:.4g} within one {group} and {between[j]:.4g} from one to another"
            )
    lines = [f"Clients' coefficients: {'; '.join(own)}."]
    if same:
        lines.append(f"The same for all clients: {'; '.join(same)}.")
    if between is not None:
        means, level = model.group_mean_, int(np.argmin(shared))  # the first that varies
        order = np.argsort(means[:, level], kind="stable")
        ends = [f"{short(model.groups_[g])} ({means[g, level]:.4g})" for g in (order[0], order[-1])]
        lines.append(
            f"By {group}, {outcome.coefficients[level]} is expected to be lowest in {ends[0]} and highest in {ends[1]}, of "
            f"{len(means)}; a client is drawn to its {group}, and each {group} to all."
        )
    return lines


def borrowed(outcome, facts):
    """Return who borrowed most and least."""
    lines, heard = [], outcome.heard
    if outcome.weight is None:
        lines += [ways(outcome.own[heard], outcome.mean[heard], facts["centre"])] if facts["spread"] else []
    elif facts.get("spread") != 0 and heard.any():
        places = np.flatnonzero(heard & ~outcome.shared)
        ends = [places[pick(outcome.weight[places])] for pick in (np.argmin, np.argmax)]
        shares = [f"{outcome.weight[i]:.0%}" for i in ends]
        why = ""
        if shares[0] == shares[1]:
            shares = shares[:1]
        else:
            why = f"; {LESS[facts['data']]}" if goes_with_size(outcome) else ""
            if not outcome.coefficients:
                shares = [f"{share} ({short(outcome.clients[i])})" for share, i in zip(shares, ends, strict=True)]
        if outcome.coefficients:
            lines.append(f"A client's own rows make up {' to '.join(shares)} of its estimate{why}.")
        else:
            where = "what its covariates predict" if outcome.covariates else "the centre"
            lines.append(f"An estimate keeps {' to '.join(shares)} of its distance to {where}{why}.")
    most = facts["moved_most"]
    i = outcome.clients.index(most) * outcome.per_client
    if outcome.coefficients:
        i += outcome.coefficients.index(facts["moved_most_coefficient"])
        most = f"{most} ({facts['moved_most_coefficient']})"
    most = printable(most)
    before, after = f"{outcome.own[i]:.4g}", f"{outcome.mean[i]:.4g}"
    if before != after:
        lines.append(f"{most} moved most, from {before} to {after}.")
    return lines


def goes_with_size(outcome):
    """Return whether own weights fall, and never rise, from clients who know more to those who know less."""
    if outcome.kind.data == "means":
        noise = outcome.error
    elif outcome.n is None:
        return False
    else:
        noise = -np.repeat(np.asarray(outcome.n, float), outcome.per_client)
    told = outcome.heard & ~outcome.shared
    noise, weight = noise[told], outcome.weight[told]
    steps = np.diff(weight[np.lexsort((weight, noise))])  # of equally noisy ones the lightest comes first
    return bool((steps <= 1e-12).all())


def ways(own, mean, centre):
    """Return how many estimates moved towards the centre."""
    towards = (mean - own) * (centre - own)
    if (towards >= 0).all():
        return "No estimate moved away from the centre."
    return f"{np.sum(towards > 0)} of {own.size} estimates moved towards the centre, {np.sum(towards < 0)} away from it."
