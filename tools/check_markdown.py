"""Checks lines and words of Markdown pages, and words of code: ``python tools/check_markdown.py``.

A line of Markdown has at most 120 characters. Tables, fenced code, records of measurements, and
pages that a command makes are exempt. Words that a reader would have to guess are errors; each
message names the field's word. Docstrings of the package, the tools and the benchmarks start with a
noun or a verb.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST = 120
INSTEAD = (
    (r"(?<![a-z])anew(?![a-z])", "again"),
    (r"\bbegin of\b", "start of"),
    (r"\bmakes? place\b", "is evicted"),
    (r"\bwhat (?:\w+ ){1,3}c[ao]mes? (?:to|of)\b", "the name of the result"),
    (r"\b(?:takes?|taken) apart\b", "unpickle, or delete"),
    (r"\bha(?:s|ve) a say\b", "affects"),
    (r"\b[A-Z]\w*Course\b|_course\b|\bcourse_", "epoch or state"),
)
#: Not in C++: the engine's errors say of a listing or a filter that it "goes on".
INSTEAD_IN_PYTHON = (
    (r"(?<![a-z])(?:go(?:es|ing|ne)?|went)[ _]on(?![a-z])", "resume, or continue"),
)
OPENING = (
    r'"""(?:What|That|Those|How|Where|Who|Whose|Its|Of)\b',
    "a noun, or a verb such as Return",
)
CXX = ("include/*.h", "bindings/*.h", "bindings/*.cc", "src/*.h", "src/*.cc", "examples/*.cc")
PYTHON = ("python/*.py", "tools/*", "benchmarks/*.py")
OTHER = ("tests/*.py", "examples/*.py", "*.ipynb", "*.md", "*.sh", "Makefile")
#: Records of measurements, which stay as they were written.
RECORDS = "benchmarks/results/"


def tracked(*patterns: str) -> list[Path]:
    """Return the files that git knows, and new ones."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for name in sorted(set(found.splitlines())) if (path := ROOT / name).is_file()]


def long_lines(text: str) -> Iterator[int]:
    """Yield the numbers of the lines that are too long."""
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif len(line) > MOST and not in_code and not line.lstrip().startswith("|"):
            yield number


def words(path: Path, rules: tuple[tuple[str, str], ...]) -> Iterator[str]:
    """Yield a message for each word of a file that breaks a rule."""
    name = str(path.relative_to(ROOT))
    if path == Path(__file__).resolve() or name.startswith(RECORDS):
        return
    compiled = [(re.compile(rule, re.IGNORECASE), instead) for rule, instead in rules]
    for number, line in enumerate(path.read_text().splitlines(), 1):
        for rule, instead in compiled:
            for match in rule.finditer(line):
                yield f"{name}:{number}: {match.group()!r}: say {instead}"


def main() -> int:
    """Print the findings; return 1 if there are any."""
    found = []
    for path in tracked("*.md"):
        name, text = str(path.relative_to(ROOT)), path.read_text()
        if not text.startswith("<!-- made by") and not name.startswith(RECORDS):
            found += [f"{name}:{n}: more than {MOST} characters" for n in long_lines(text)]
    for patterns, rules in (
        (CXX, INSTEAD),
        (PYTHON, (*INSTEAD, *INSTEAD_IN_PYTHON, OPENING)),
        (OTHER, (*INSTEAD, *INSTEAD_IN_PYTHON)),
    ):
        for path in tracked(*patterns):
            found += words(path, rules)
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
