"""Hold the words of a notebook against its numbers.

Belongs here: which words of the prose state a size, an order or a count, and the checks that answer for them.  Does not
belong here: execution (`run.py`) and what the notebooks teach.

A check is a comment of Markdown, invisible to a reader, in the cell whose words it answers for:

    Three and a half times less error, from the same data.

    <!-- check
    says("Three and a half times less", round(total_error(april) / total_error(shrunken), 1) == 3.5)
    -->

It is Python, run where it stands with the names of the notebook, and leaves them as they were.  `says(words, holds)` fails
unless `holds`; where chance has a part, it should hold for other seeds too.  `beyond(words, why)` excuses words that no
number in the notebook can settle; `why` is one of `EXCUSES`.  `unsupported` lists what neither answers for.
"""

import ast
import inspect
import re

CODE = re.compile(r"```python\n(?P<solution>.*?)```|<!-- check\n(?P<check>.*?)-->", re.DOTALL)
DETAILS = re.compile(r"<details>.*?</details>", re.DOTALL)
EXCUSES = ("history", "a proof", "no quantity", "by definition")

NUMBER = (
    r"\.?\d+(?:[.,]\d+)*|two|three|four|five|six|seven|eight|nine|ten|twelve|fifteen|eighteen|twenty|thirty|forty|fifty|sixty"
    r"|seventy|eighty|ninety|hundreds?|thousands?|millions?|half|halves|thirds?|quarters?|fifths?|sixth|sevenths?|eighths?"
    r"|ninths?|tenths?|twice|doubles?|doubled|triples?|tripled|per cent|per mille|linearly"
)
ORDER = (
    r"than|better|worse|best|worst|largest|smallest|larger|smaller|closer|closest|weaker|stronger|wider|narrower|noisier"
    r"|noisiest|cheaper|faster|slower|fewer|always|never|everywhere|nowhere|nearly|almost|hardly|often|rarely|enormous|tiny"
    r"|little|small|large|coincide|useless|beats?|wins?|loses?|outweighs?"
)
STATED = re.compile(rf"(?<![\w.])(?:{NUMBER}|{ORDER})(?!\w)", re.IGNORECASE)
NOT_PROSE = re.compile(
    r"```.*?```|<!--.*?-->|</?details>|<summary>.*?</summary>|^#+ .*?$|^\s*(?:\d\.|[-*>]) ", re.DOTALL | re.MULTILINE
)
NOT_STATED = re.compile(  # what an exercise asks, questions, displays, code, numbers of places and ordinary names
    r"\*\*\d\.\*\*.*?(?=\x00|$)|(?:[^.!?\x00]|\.(?=\d))*\?|\$\$.*?\$\$|`[^`]*`|\bdoi \S+"
    r"|\b(?:notebooks?|Theorem|Lemma|Corollary|Figure|Table|Algorithm|Check|Reading|Appendix|formula|exercise) "
    r"\(?[A-Z]?\.?\d+(?:\.\d+)*\)?(?: and \d+)?|\(\d\d\)",
    re.IGNORECASE,
)
MATH = re.compile(r"\$[^$]+\$")
MATH_NUMBER = re.compile(r"\d+\.\d+|(?:=|\\approx|\\le)\s*-?\d+(?=[.,;]?\$)")


# ---- the checks, as they run in the notebook ----


def answer(code, names):
    """Run one check on a copy of `names`; generators are copied too, so that a check uses up no draws of the notebook."""
    import ast
    import copy

    import numpy as np

    said = set()

    def says(words, holds):
        said.add(words)
        if not isinstance(holds, bool | np.bool_):
            raise TypeError(f"whether {words!r} holds is True or False, not {holds!r}")
        if not holds:
            raise AssertionError(f"the text says {words!r}; the numbers do not")

    def beyond(words, why):
        del words, why

    copied = {k: copy.deepcopy(v) if isinstance(v, np.random.Generator) else v for k, v in names.items()}
    exec(code, {**copied, "says": says, "beyond": beyond})  # what the notebook's author wrote, as any cell of it
    nodes = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    for node in nodes:
        if getattr(node.func, "id", None) == "says" and ast.literal_eval(node.args[0]) not in said:
            raise AssertionError(f"nothing was computed for {ast.unparse(node.args[0])}: its check was never reached")


def hidden(source):
    """Return the hidden code of a Markdown cell as pairs (kind, code that runs), in the order of the text."""
    inside = [m.span() for m in DETAILS.finditer(source)]
    found = []
    for match in CODE.finditer(source):
        if match["check"] is not None:
            found.append(("check", f"{inspect.getsource(answer)}\nanswer({match['check']!r}, globals())\ndel answer"))
        elif any(start <= match.start() < end for start, end in inside):
            found.append(("solution", match["solution"]))
    return found


# ---- the words, and what answers for them ----


def calls(source, *functions):
    """Return the calls of `functions` in the checks of a Markdown cell."""
    nodes = [node for match in CODE.finditer(source) for node in ast.walk(ast.parse(match["check"] or ""))]
    return [n for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in functions]


def quoted(source):
    """Return the pairs (words, excuse or None) that the checks of a Markdown cell answer for."""
    pairs = [[ast.literal_eval(call.args[0]), None] for call in calls(source, "says")]
    pairs += [[ast.literal_eval(arg) for arg in call.args] for call in calls(source, "beyond")]
    return [(" ".join(words.split()), why) for words, why in pairs]


def typed(source):
    """Return the words of a Markdown cell that `says` is told to hold, by a constant in place of numbers."""
    return [
        ast.literal_eval(call.args[0])
        for call in calls(source, "says")
        if not any(isinstance(node, ast.Name) for node in ast.walk(call.args[1]))
    ]


def prose(source):
    """Return the text of a Markdown cell in one line, without code and headings; paragraphs end in a zero character."""
    text = NOT_PROSE.sub("\n\n", source)
    return "\x00".join(" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip())


def stated(text):
    """Return the spans of `text` (see `prose`) that state a size, an order or a count."""

    def blank(match):
        return " " * len(match[0])

    def math(match):
        numbers = [m.span() for m in MATH_NUMBER.finditer(match[0])]
        return "".join(c if any(a <= i < b for a, b in numbers) else " " for i, c in enumerate(match[0]))

    return [m.span() for m in STATED.finditer(MATH.sub(math, NOT_STATED.sub(blank, text)))]


def unsupported(notebook):
    """Return what is wrong with the words of `notebook`, one line each: statements that no check answers for, checks of
    words that do not stand in it once, and excuses of no kind."""
    cells = [c.source for c in notebook.cells if c.cell_type == "markdown"]
    text = "\x00".join(prose(source) for source in cells)
    wrong = [f"a check of {words!r} is typed, not computed" for source in cells for words in typed(source)]
    covered = []
    for words, why in (pair for source in cells for pair in quoted(source)):
        places = [m.span() for m in re.finditer(re.escape(words), text)]
        covered += places
        if len(places) != 1:
            wrong.append(f"a check answers for {words!r}, which stands in the text {len(places)} times, not once")
        if why is not None and why not in EXCUSES:
            wrong.append(f"{why!r} is no excuse for {words!r}; there are {', '.join(EXCUSES)}")
    for start, end in stated(text):
        if not any(a <= start and end <= b for a, b in covered):
            around = text[max(0, start - 50) : end + 40].replace("\x00", " ")
            wrong.append(f"no check answers for {text[start:end]!r} in '...{around}...'")
    return wrong
