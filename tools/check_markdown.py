"""Checks lines and words of Markdown pages, and words of code: ``python tools/check_markdown.py``.

Lines of Markdown end at 120 characters, but for tables, code, and pages that a command makes. Some words are not to come
back, as a reader would have to guess what they mean; each has one that the field uses.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST = 120
INSTEAD = {
    "anew": "again",
    "begin of": "start of",
    "go on from": "resume",
    "goes on from": "resumes",
    "gone on from": "resumed",
    "going on from": "resuming",
    "makes place": "is evicted",
}
WORDS = re.compile(r"\b(" + "|".join(INSTEAD) + r")\b", re.IGNORECASE)
CODE = (
    "python/*.py",
    "include/*.h",
    "bindings/*.h",
    "bindings/*.cc",
    "src/*.h",
    "src/*.cc",
    "examples/*",
    "tools/*",
)


def tracked(*patterns: str) -> list[Path]:
    """Files that git knows, and new ones."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for name in sorted(set(found.splitlines())) if (path := ROOT / name).is_file()]


def long_lines(text: str) -> Iterator[int]:
    """Numbers of the lines that are too long."""
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif len(line) > MOST and not in_code and not line.startswith(("|", "    ")):
            yield number


def main() -> int:
    """Print what is found; 1 if there is something."""
    found = []
    for path in tracked("*.md"):
        text = path.read_text()
        if not text.startswith("<!-- made by"):
            found += [
                f"{path.relative_to(ROOT)}:{n}: more than {MOST} characters"
                for n in long_lines(text)
            ]
    for path in [*tracked("*.md"), *tracked(*CODE)]:
        if path == Path(__file__).resolve():
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found += [
                f"{path.relative_to(ROOT)}:{number}: {word!r}: say {INSTEAD[word.lower()]!r}"
                for word in WORDS.findall(line)
            ]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
