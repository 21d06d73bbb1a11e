"""Porter's stemmer, as Lucene has it.

M. F. Porter, "An algorithm for suffix stripping", Program 14 (1980), with the two rules that its author added later:
``bli`` → ``ble`` and ``logi`` → ``log``. No small library has these: with Snowball's ``porter``, "possibly" would not
find "possible", as it does on OpenSearch.
"""

from __future__ import annotations

from collections.abc import Mapping

_STEP_2 = {
    **{"ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble", "alli": "al"},
    **{"entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al"},
    **{"iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble"},
    "logi": "log",
}
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4 = dict.fromkeys(
    [
        *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "sion", "tion", "ou"),
        *("ism", "ate", "iti", "ous", "ive", "ize"),
    ],
    "",
) | {"sion": "s", "tion": "t"}
_LONGEST = 7  # letters of the longest suffix


def stem(word: str) -> str:
    """The stem of a word in lower case.

    >>> [stem(word) for word in ("running", "relational", "possibly", "skies", "is")]
    ['run', 'relat', 'possibl', 'ski', 'is']
    """
    if len(word) < 3:
        return word
    if word.endswith(("sses", "ies")):  # step 1a
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    word = _without_past_or_progressive(word)
    if word.endswith("y") and "v" in _shape(word[:-1]):  # step 1c
        word = word[:-1] + "i"
    return _without_final_e(_replaced(_replaced(_replaced(word, _STEP_2, 1), _STEP_3, 1), _STEP_4, 2))


def _without_past_or_progressive(word: str) -> str:
    """Step 1b."""
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    ending = next((ending for ending in ("ed", "ing") if word.endswith(ending)), "")
    stem = word[: len(word) - len(ending)]
    if not ending or "v" not in (shape := _shape(stem)):
        return word
    if stem.endswith(("at", "bl", "iz")):
        return stem + "e"
    if shape.endswith("c") and stem[-1:] == stem[-2:-1]:  # a double consonant
        return stem if stem[-1] in "lsz" else stem[:-1]
    return stem + "e" if _measure(stem) == 1 and _ends_in_short_syllable(stem) else stem


def _replaced(word: str, endings: Mapping[str, str], least: int) -> str:
    """Steps 2, 3 and 4: the longest of the endings replaced, if what is before it has at least this measure."""
    for length in range(min(_LONGEST, len(word)), 1, -1):
        ending = word[-length:]
        if ending in endings:
            new = endings[ending]
            # the "s" or "t" before "ion" belongs to the stem
            stem = word[:-3] if ending in ("sion", "tion") and new else word[:-length]
            return word[:-length] + new if _measure(stem) >= least else word
    return word


def _without_final_e(word: str) -> str:
    """Step 5."""
    if word.endswith("e"):
        stem = word[:-1]
        measure = _measure(stem)
        if measure > 1 or (measure == 1 and not _ends_in_short_syllable(stem)):
            word = stem
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word


def _shape(word: str) -> str:
    """``c`` for each consonant of a word and ``v`` for each vowel; y is a vowel after a consonant."""
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    """How often consonants follow vowels: the m of Porter's paper."""
    return _shape(word).count("vc")


def _ends_in_short_syllable(word: str) -> bool:
    """Whether a word ends in consonant, vowel, and a consonant other than w, x or y (\\*o in the paper)."""
    return _shape(word).endswith("cvc") and word[-1] not in "wxy"
