"""The console: characters that it lacks, numbers of options, options typed wrongly, messages of errors."""

import argparse
import html.entities
import io
import sys
import unicodedata
from pathlib import Path

import pytest

from estimators.system import console


def test_greek_letters_have_their_names_and_no_character_is_lost():
    """By the names that HTML has for them; every other character is words, or a code that Python reads back."""
    names = {chr(point): name for name, point in html.entities.name2codepoint.items()}
    greek = {c: name for c, name in names.items() if "\u0391" <= c <= "\u03c9" and c != "\u03c2"}  # but for a final sigma
    assert len(greek) == 48
    for character, name in greek.items():
        assert console.plain(character) == {"lambda": "lamda", "Lambda": "Lamda"}.get(name, name)  # as Unicode spells it
    for point in (*range(0x80, 0x3000), 0x1F600):
        text = chr(point).encode("ascii", "borrow").decode()
        assert text.isprintable()
        if chr(point) not in console.WORDS and not unicodedata.name(chr(point), "").startswith("GREEK"):
            assert text.encode().decode("unicode_escape") == chr(point)
    assert "a±2 × ε–é…".encode("latin-1", "borrow").decode("latin-1") == "a±2 × epsilon-é..."
    with pytest.raises(UnicodeDecodeError):
        b"\xff".decode("ascii", "borrow")


def test_standard_output_prints_any_text(monkeypatch):
    stream = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(stream, encoding="ascii", newline="\n"))
    console.printable()
    print("σ ≤ 2")
    sys.stdout.flush()
    assert stream.getvalue() == b"sigma <= 2\n"
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    console.printable()  # what has no encoding needs none


NUMBERS = ["-1", "-12.5", "-.5", "-1.", "-1e3", "-1E-3", "-2.5e+10", "-.5e1", "-inf", "0.1", "1e-9"]


@pytest.mark.parametrize("text", NUMBERS)
def test_values_of_options_may_be_any_number(text):
    parser = argparse.ArgumentParser()
    parser.add_argument("--x", type=float)
    console.read_numbers(parser)
    assert parser.parse_args(["--x", text]).x == float(text)


@pytest.mark.parametrize("text", ["-e", "-", "--", "-x1", "-1x", "-1e", "-.", "-.e1", "-infx", "-in", "-1.5.2"])
def test_what_is_no_number_is_no_value(text):
    matcher = argparse.ArgumentParser()
    console.read_numbers(matcher)
    assert not matcher._negative_number_matcher.match(text)


def test_options_typed_wrongly_are_told_by_the_command_that_was_meant(capsys):
    parser = argparse.ArgumentParser(prog="all")
    parser.add_argument("--whole")
    inner = parser.add_subparsers().add_parser("fit")
    inner.add_argument("--level", type=float)
    inner.add_argument("--model")
    inner.set_defaults(parser=inner)
    assert console.parse(parser, ["fit", "--level", "0.5"]).level == 0.5
    for argv, says in (
        (
            ["fit", "--levl=0.9", "--modle", "x"],
            "unrecognized arguments: --levl=0.9 --modle x; did you mean --level --model?",
        ),
        (["fit", "level"], "unrecognized arguments: level\n"),
        (["fit", "--zzzzzz"], "unrecognized arguments: --zzzzzz\n"),
    ):
        with pytest.raises(SystemExit) as ended:
            console.parse(parser, argv)
        said = capsys.readouterr().err
        assert ended.value.code == 2
        assert "usage: all fit" in said
        assert says in said
    with pytest.raises(SystemExit):
        console.parse(parser, ["--whol", "1", "--hole"])
    assert "usage: all [" in capsys.readouterr().err


def test_errors_are_explained_without_pythons_marks():
    for error, says in (
        (PermissionError(13, "Permission denied", "a.csv"), "a.csv: Permission denied"),
        (OSError(28, "No space left on device"), "standard output: No space left on device"),
        (OSError("it is no file"), "it is no file"), (ValueError("eps must be > 0"), "eps must be > 0"),
    ):  # fmt: skip
        assert console.explain(error) == says
    with pytest.raises(FileNotFoundError) as caught:
        Path("/nowhere/at/all").read_bytes()
    assert console.explain(caught.value) == "/nowhere/at/all: No such file or directory"


def test_hints_are_the_nearest_names_or_all_of_them():
    names = ["FedAvg", "FedProx", "Local", "Mixture"]
    assert console.hint("fedavg", names) == "did you mean FedAvg?"
    assert console.hint("FedPvg", names) == "did you mean FedAvg or FedProx?"
    assert console.hint("qqq", names) == "there are FedAvg, FedProx, Local, Mixture"
    assert console.hint("x", []) == "there are none"
    assert console.hint("a1", ["a2", "a3", "a4", "a5"]).count(" or ") == 2  # three at most
    assert console.hint("ab", ["ax"]) == "did you mean ax?"  # half of its letters are enough
    assert console.hint("abc", ["axy"]) == "there are axy"
