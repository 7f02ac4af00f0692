"""What the letters of the frauds stand for, so that their displays are read."""

LETTERS = {"A": "A", "D": "D"}
