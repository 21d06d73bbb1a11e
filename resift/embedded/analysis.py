"""Texts as words, in the way of the analysers that our indices have in OpenSearch
(:data:`resift.plugin.opensearch.mappings.ANALYSIS`).

All cut a text where Unicode does (UAX #29, as Lucene's ``StandardTokenizer`` applies it), and compound names such as
``os.path`` or ``read_csv`` at their signs as well, and lower the words. ``english`` also takes the possessive 's away,
leaves stop words out, and stems the rest by Porter's rules; other languages are stemmed by Snowball's, and German by
Savoy's light rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from itertools import accumulate
from typing import Any

from resift.contracts.documents import COMPOUND_JOINTS, ELISIONS, LANGUAGES
from resift.porter import snowball, stem
from resift.text import ANALYZER_STOP_WORDS

MAX_WORD = 255  # characters, of which Lucene makes a word at most; the rest is the next one
# Signs that Unicode 12 counted among the pictographs, as Lucene does, and later versions no longer do.
_PICTURES = (
    r"\u2388\u2600-\u2605\u2607-\u2612\u2614-\u2685\u2690-\u2705\u2708-\u2712\u2763-\u2767\U0001F000-\U0001F0FF"
    r"\U0001F10D-\U0001F10F\U0001F12F\U0001F16C-\U0001F171\U0001F1AD-\U0001F1E5\U0001F249-\U0001F53D"
    r"\U0001F546-\U0001F64F\U0001F680-\U0001F6FF\U0001F774-\U0001F77F\U0001F7D5-\U0001F7FF\U0001F8AE-\U0001F8FF"
    r"\U0001F90C-\U0001F93A\U0001F93C-\U0001F945\U0001F947-\U0001FFFD"
)
# Most texts are in ASCII, but for the signs of typesetters; `re` is quicker than `regex`.
_FOREIGN = re.compile("[^\x00-\x7f’‘“”–—…\xa0]")
_TOGETHER = 50  # characters from a foreign one on that are looked at together
_LATIN = re.compile(
    # most are letters alone, which the rest of the rules would look at for half as long again
    r"([A-Za-z]+(?![A-Za-z0-9.:'’‘])|(?:[0-9]+(?:[.,;'’‘][0-9]+)*"
    # dots and colons join single letters alone, as in U.S. and e.g.
    r"|[A-Za-z]+(?:(?:['’‘]|(?<![A-Za-z]{2})[.:](?![A-Za-z]{2}))[A-Za-z]+)*)+)"
)


def terms_of(text: str, analyzer: str) -> list[str]:
    """The terms that a text is indexed and searched by, in order.

    >>> terms_of("The dog's 3.14 covid19 runs", "english")
    ['dog', '3.14', 'covid19', 'run']
    >>> terms_of("Straße 東京 l'été", "standard")
    ['straße', '東', '京', "l'été"]
    >>> terms_of("os.path.join_all in the U.S.", "standard")
    ['os', 'path', 'join', 'all', 'in', 'the', 'u.s']
    """
    words = [word for pattern, part in _parts(text) for word in pattern.findall(part)]
    if max(map(len, words), default=0) > MAX_WORD:
        words = [word[i : i + MAX_WORD] for word in words for i in range(0, len(word), MAX_WORD)]
    return [found for found in map(_term(analyzer), words) if found]


def words_of(text: str, analyzer: str) -> tuple[list[str], list[tuple[int, int]]]:
    """The terms of all words, "" for one that has none, and where in the text each word begins and ends."""
    parts = [""]  # what is between words, and words, in turn
    for pattern, part in _parts(text):
        first, *more = pattern.split(part)
        parts[-1] += first
        parts += more
    if max(map(len, parts[1::2]), default=0) > MAX_WORD:
        first, *more = parts
        parts = [first]
        for word, after in zip(more[::2], more[1::2], strict=True):
            for start in range(0, len(word), MAX_WORD):
                parts += [word[start : start + MAX_WORD], ""]
            parts[-1] = after
    ends = [*accumulate(map(len, parts))]
    return [*map(_term(analyzer), parts[1::2])], [*zip(ends[::2], ends[1::2], strict=False)]


def _parts(text: str) -> Iterator[tuple[Any, str]]:
    """The parts of a text, in which compound names are cut by blanks, and the pattern of the words of each.

    At a blank words of all scripts end, and what stands in ASCII between two is cut in a tenth of the time.
    """
    at, cut = 0, ""
    while foreign := _FOREIGN.search(text, at):
        words, joints = _unicode()
        cut = cut or joints.sub(" ", text)
        start, end = max(at, text.rfind(" ", at, foreign.start())), text.find(" ", foreign.start() + _TOGETHER)
        end = len(text) if end < 0 else end
        yield _LATIN, text[at:start]
        yield words, cut[start:end]
        at = end
    yield _LATIN, text[at:]


@cache
def _unicode() -> tuple[Any, Any]:
    """A word of any text, by the rules of Lucene's grammar (``StandardTokenizerImpl.jflex``), one by one; and the signs
    at which compound names are cut."""
    # re knows no properties of Unicode. Imported here since texts in ASCII, most of English, do not need it.
    import regex

    after = r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]*"  # marks belong to the character before them
    letter, hebrew = rf"[\p{{WB=ALetter}}\p{{WB=Hebrew_Letter}}]{after}", rf"\p{{WB=Hebrew_Letter}}{after}"
    digit, katakana = rf"\p{{WB=Numeric}}{after}", rf"\p{{WB=Katakana}}{after}"
    joiner = rf"\p{{WB=ExtendNumLet}}{after}"
    between_letters = rf"[\p{{WB=MidLetter}}\p{{WB=MidNumLet}}\p{{WB=Single_Quote}}]{after}"
    between_digits = rf"[\p{{WB=MidNum}}\p{{WB=MidNumLet}}\p{{WB=Single_Quote}}]{after}"
    hebrew_quotes = rf"(?:\p{{WB=Double_Quote}}{after}(?={hebrew})|\p{{WB=Single_Quote}}{after})"
    letters = rf"(?:{hebrew}{hebrew_quotes}|{letter}(?:{between_letters}(?={letter}))?)+"
    digits = rf"(?:{digit}(?:{between_digits}(?={digit}))?)+"
    unit = rf"(?:(?:{letters}|{digits})+|(?:{katakana})+)"
    word = rf"(?:(?<!\p{{WB=ExtendNumLet}})(?:{joiner})+)?{unit}(?:(?:{joiner})+{unit})*(?:{joiner})*"
    flag, keycap = rf"\p{{RI}}{after}\p{{RI}}{after}", r"[0-9#*]\uFE0F?\u20E3"
    picture = rf"[\p{{Extended_Pictographic}}\p{{EMod}}{_PICTURES}]"
    emoji = rf"\u200D*{picture}{after}(?:(?<=\u200D){picture}{after})*"
    # Scripts that write no spaces: South-East Asian ones by the run, Han and Hiragana by the character.
    unspaced = rf"(?:\p{{LB=SA}}{after})+|[\p{{Script=Han}}\p{{Script=Hiragana}}]{after}"
    return regex.compile(rf"({keycap}|{word}|{flag}|{emoji}|{unspaced})"), regex.compile(COMPOUND_JOINTS)


@lru_cache(1 << 17)
def _lowered(word: str) -> str:
    """A word in lower case, character by character: a final Σ is σ, and İ is i."""
    lowered = word.lower()
    return lowered if "Σ" not in word and "İ" not in word else "".join(letter.lower()[0] for letter in word)


@lru_cache(1 << 17)
def _stemmed(word: str) -> str:
    """The stem of a word; "" for a stop word."""
    lowered = _lowered(word)
    if lowered.endswith(("'s", "’s", "＇s")):
        lowered = lowered[:-2]
    return "" if lowered in ANALYZER_STOP_WORDS else stem(lowered)


@cache
def _term(analyzer: str) -> Callable[[str], str]:
    """What makes a term of a word."""
    if analyzer in LANGUAGES:
        return _of_language(analyzer)
    return _stemmed if analyzer == "english" else _lowered


def _of_language(language: str) -> Callable[[str], str]:
    """What stems the words of a language, and takes an elided article ("l'") away from them."""
    stem_of = _light_german if language == "german" else snowball(language)
    elided = frozenset(ELISIONS.get(language, ()))

    @lru_cache(1 << 17)
    def stemmed(word: str) -> str:
        lowered = _lowered(word)
        apostrophe = re.search("['’]", lowered) if elided else None
        if apostrophe and lowered[: apostrophe.start()] in elided:
            lowered = lowered[apostrophe.end() :]
        return stem_of(lowered)

    return stemmed


def _light_german(word: str) -> str:
    """The stem of a German word in lower case, by the light rules of Savoy (2006): umlauts and accents go, then an
    ending of a noun's or an adjective's case, then one of a comparison."""
    stem = word.translate(_PLAIN_VOWELS)
    for steps in _GERMAN_ENDINGS:
        ending = next((match for rule in steps if (match := rule.search(stem))), None)
        stem = stem[: ending.start()] if ending else stem
    return stem


_PLAIN_VOWELS = str.maketrans("äàáâöòóôïìíîüùúû", "aaaaooooiiiiuuuu")
_GERMAN_ENDINGS = [
    [re.compile(rule) for rule in rules]
    for rules in (
        ["(?<=...)ern$", "(?<=...)e[mnrs]$", "(?<=...)e$", "(?<=..[bdfghklmnt])s$"],
        ["(?<=...)est$", "(?<=...)e[rn]$", "(?<=..[bdfghklmnt])st$"],
    )
]
