"""The dependency graph as an arc diagram: claims in the papers' order on a line, an arc for each result that is taken.

Belongs here: positions.  Does not belong here: the graph itself (recorded while deriving), colours (the style sheet).
"""

__all__ = ["arc_diagram"]

ROW = 22


def arc_diagram(pages):
    """Return rows and arcs for the template.

    Parameters
    ----------
    pages : list of descriptions in order; those that take a result or give one are drawn.

    Returns
    -------
    dict with `rows` (description, y), `arcs` (taker, giver, path), `height`, `reach` (width of the arcs).
    """
    takes = {page["id"]: [i for i in page["lemmas"] if i != page["id"]] for page in pages}
    gives = {giver for givers in takes.values() for giver in givers}
    shown = [page for page in pages if takes[page["id"]] or page["id"] in gives]
    y = {page["id"]: ROW * (i + 1) for i, page in enumerate(shown)}
    spans = [abs(y[a] - y[b]) for a, givers in takes.items() for b in givers]
    longest = max(spans, default=ROW)
    reach = 220
    arcs = []
    for taker, givers in takes.items():
        for giver in givers:
            # Arcs bulge with the square root of their span: short ones stay visible beside long ones.
            bulge = round(30 + (reach - 30) * (abs(y[taker] - y[giver]) / longest) ** 0.5, 1)
            top, bottom = y[giver], y[taker]
            curve = f"C{reach - bulge} {top} {reach - bulge} {bottom} {reach} {bottom}"
            arcs.append({"taker": taker, "giver": giver, "path": f"M{reach} {top}{curve}"})
    rows = [{"page": page, "y": y[page["id"]]} for page in shown]
    return {"rows": rows, "arcs": arcs, "height": ROW * (len(shown) + 1), "reach": reach}
