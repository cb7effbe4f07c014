"""What a compiler says about a user's header, cut down to the author's own lines.

Reads the text that g++ and clang++ print, which has kept its form across their versions.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

SHOWN = 3  # errors; those that follow mostly follow from them
SNIPPET = 3  # lines: the source, the caret and a suggested fix

LOCATED = re.compile(r"(?P<file>.+?):(?P<line>\d+):(?P<column>\d+): +(?P<rest>.*)")
ERROR = re.compile(r"(?:fatal )?error: (.*)")
INCLUDED = re.compile(r"(?:In file included| +) from (?P<file>.+?):(?P<line>\d+)[:,]")
CONTEXT = re.compile(r".+: (?:In .*|At global scope):")
GUTTER = re.compile(r" *\d* \| ?")
CLOSING = re.compile(r"\d.* generated\.|compilation terminated.*|\S+: .* treated as errors")
# Notes that lead from an error in the engine to the line of the author's that asked for it.
LEADS = re.compile(
    r"requested here|in expansion of macro|expanded from macro|declared here|required"
)
UNLOCATED = re.compile(r"(?:[^ :]+: )?(?:fatal )?error: (.*)")
UNDEFINED = re.compile(r"undefined (?:reference to|symbol:) [`'\"]?(?P<name>[^'\"\n]+)")
CONTRACT = re.compile(r"leanfast: ([^\"]*)")
DECLARED = re.compile(r"leanfast::Declared|'Declared'")
NARROWED = re.compile(r"narrow.*'double' to 'float'")


@dataclass
class Diagnostic:
    file: str
    line: int
    message: str
    trail: list[tuple[str, int]]  # other places named with it
    included: list[tuple[str, int]]
    snippet: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Author:
    """Which files are the author's, and how to name them as the author would."""

    header: Path  # absolute, as the compiler was given it
    given: Path  # as the author wrote it
    include: Path  # the engine's

    def owns(self, file: str) -> bool:
        if Path(file) == self.header:
            return True
        engine = (str(self.include / "engine") + os.sep, str(self.include / "leanfast.hpp"))
        return file.startswith(str(self.header.parent) + os.sep) and not file.startswith(engine)

    def name(self, file: str) -> str:
        return str(self.given.parent / Path(file).relative_to(self.header.parent))


def explain(text: str, author: Author) -> str | None:
    """The errors at the author's lines, or None where none of them has to do with the author."""
    shown: dict[tuple[str, int], str] = {}
    for error in read(text):
        place = _place(error, author)
        contract = CONTRACT.search(error.message)
        if contract and not shown:
            return _contract(contract[1], author, place)
        if contract or place is None:
            continue
        line = f"{author.name(place[0])}:{place[1]}: error: {_reworded(error)}"
        vague = error.message.startswith("there are no arguments to")
        if place not in shown or "there are no arguments to" in shown[place]:
            shown.pop(place, None)
            shown[place] = "\n".join([line, *(() if vague else _source(error, place))])
        if len(shown) > SHOWN:
            break
    if not shown:
        undefined = UNDEFINED.search(text)
        if undefined is None:
            return None
        return (
            f"{author.given}: error: {undefined['name']} is declared but never defined; "
            "a header must hold or include all its code"
        )
    return "\n".join(list(shown.values())[:SHOWN])


def first_message(text: str) -> str:
    """The first error of all, wherever it is; the last line of the text where there is none."""
    for line in text.splitlines():
        located = LOCATED.fullmatch(line)
        found = ERROR.match(located["rest"]) if located else UNLOCATED.fullmatch(line)
        if found:
            return found[1]
    return (text.strip().splitlines() or ["no message"])[-1]


def read(text: str) -> Iterator[Diagnostic]:
    current: Diagnostic | None = None
    before: list[tuple[str, int]] = []  # g++ tells what required a template ahead of the error
    included: list[tuple[str, int]] = []
    in_snippet = False
    for line in text.splitlines():
        snippet, in_snippet = in_snippet, False
        if CONTEXT.fullmatch(line) or CLOSING.fullmatch(line):
            before = []
        elif include := INCLUDED.match(line):
            included = included if line.startswith(" ") else []
            included.append((include["file"], int(include["line"])))
        elif located := LOCATED.fullmatch(line):
            place, rest = (located["file"], int(located["line"])), located["rest"]
            if error := ERROR.match(rest):
                if current:
                    yield current
                current = Diagnostic(*place, error[1], before, included)
                before, in_snippet = [], True
            elif rest.startswith("warning: "):
                if current:
                    yield current
                current, before = None, []
            elif not rest.startswith("note: "):
                before.append(place)
            elif current and LEADS.search(rest):
                current.trail.append(place)
        elif current and snippet and len(current.snippet) < SNIPPET:
            current.snippet.append(GUTTER.sub("", line, count=1))
            in_snippet = True
    if current:
        yield current


def _place(error: Diagnostic, author: Author) -> tuple[str, int] | None:
    in_engine = Path(error.file).is_relative_to(author.include)
    places = [(error.file, error.line), *error.trail, *(() if in_engine else error.included)]
    return next((place for place in places if author.owns(place[0])), None)


def _source(error: Diagnostic, place: tuple[str, int]) -> list[str]:
    if (error.file, error.line) == place:
        return [line for line in error.snippet if line.strip()]
    try:
        return [Path(place[0]).read_text(errors="replace").splitlines()[place[1] - 1]]
    except (OSError, IndexError):
        return []


def _reworded(error: Diagnostic) -> str:
    if DECLARED.search(error.message) and "enclos" in error.message:
        return (
            "LEANFAST_ENVIRONMENT(...) must stand outside every namespace and struct "
            "(is a closing brace missing above it?)"
        )
    if NARROWED.search(error.message):
        return f"{error.message}; write a constant as Real(0.5), not 0.5"
    return error.message


def _contract(sentence: str, author: Author, place: tuple[str, int] | None) -> str:
    line = place[1] if place else _line_about(sentence, author.header)
    name = author.name(place[0]) if place else str(author.given)
    return f"{name}:{line}: error: {sentence}" if line else f"{name}: error: {sentence}"


def _line_about(sentence: str, header: Path) -> int | None:
    """The line of what the sentence is about: a function, a struct or else the environment's."""
    text = header.read_text(errors="replace")
    patterns = []
    if subject := re.search(r"\b(observe|step|reset|spec|State|Params|LEANFAST_\w+)\b", sentence):
        name = subject[1]
        patterns += [
            rf"\b(?:static|void|bool|Spec|auto|Real>)[^;{{}}()]*\b({name})\s*\(",
            rf"\bstruct\s+({name})\b",
            rf"\b({name})\(" if name.startswith("LEANFAST_") else r"(?!)",
        ]
    if declared := re.search(r"\bLEANFAST_ENVIRONMENT\(\s*(?:\w*::)*(\w+)", text):
        patterns += [rf"\bstruct\s+({declared[1]})\b", r"\b(LEANFAST_ENVIRONMENT)\("]
    found = next((match for p in patterns if (match := re.search(p, text))), None)
    return text.count("\n", 0, found.start(1)) + 1 if found else None
