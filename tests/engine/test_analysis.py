"""Tests that the embedded engine's analyzers produce the same terms as OpenSearch's."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from differential import SENTENCES
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from resift import Model
from resift.contracts.documents import ANALYZERS, LANGUAGES
from resift.embedded.analysis import terms_of, terms_with_spans
from resift.plugin.opensearch.engine import OpenSearchEngine

ODD = [
    "_ __a__ a_b c_ _1_ 1_000 a__b 'a' ''a a''b \"a\" a.b. .a a:b a,b a;b 1;2 1'2 a'1 1.a a.1 a..b 1,,2",
    "x" * 255 + " " + "y" * 256 + " " + "z" * 600 + "é",
    "ΣΟΦΟΣ İstanbul IĞDIR ßẞ ǅ ŉ ﬁ Å K",
    "xS xs's 's ’s O’NEIL’S x＇s s's' the's possibly analogies skis flies dying hoping hopping agreed y yy",
    "☚ ♬ 🃝 🗏 ♲ ▲ ■ ① Ⓜ 👍🏽 👩🏽‍💻 🏽 🏴󠁧󠁢󠁥󠁮󠁧󠁿 #️⃣ *️⃣ # * © ™ ☎ a😀b 1😀2",
    "O’NEIL’S don’t ‘quoted’ “said” 1’000 a’1 3–4 ab’c.d x.y’z a—b a…b no\u00a0break 1‘2 U.S.’s it’s ’s",
    "a\u200bb a\u00adb a\u200db a\ufeffb a\u2060b a\u00a0b a\u202fb a\u0000b a\u0085b",
    "os.path U.S. U.S e.g. Ph.D a.bc ab.c ab:cd utf_8 log4j2.xml foo_bar.baz:qux a..bc ab.:cd x1.ab ab.1 EU:n end.The",
    "हिन्दी.शब्द école.fr l'été.a ١.ab ab.日本 か.ab é.é éé.é e\u0301.é שא.א ab\u0301.c ab.\u0301c 😀.ab _日_",
    "𐐀𐐁.𐐂 𐐀.𐐁𐐂 𐐀.𐐁 a.𐐀𐐁 a𐐀:b 𝐀𝐁.𝐂_𝐃 𝐱.𝐲 𞤀𞤁:𞤂 1𐐀.𐐁 𠀀𠀁.𠀂",
    "カ_カ a_カ_1 カa 1カ ー 々〆〇 ｶﾞ か゛ 𠀀𠀁 㐀 豈 ㄅㄆ ꀀꀁ",
]
LANGUAGE_WORDS = {
    "catalan": "l'escola d’escoles cantant cantaven nacions nacionals felicitat ràpidament obrir-les t'agrada n'hi",
    "danish": "skolerne skolens arbejdede friheden venligst børnenes bogstaver læserne undersøgelse hurtigere",
    "dutch": "scholen lopende vrijheden lichamelijk mogelijkheden kinderen katten boeken gewerkt huisje één geïnd",
    "finnish": "talossa taloissammekin koulujen juoksivat vapauden kirjoittaminen EU:n tietokoneella lapsilleen yö",
    "french": "l'école d’enfants qu'elles aujourd'hui chantaient nationales rapidement œuvres L'ÉTÉ jusqu'à",
    "german": "Schulen Häuser größte schönsten Kindern gingen eventuell System Straßen des Autos Lichts ältere er",
    "hungarian": "házakban iskolák gyerekekkel szabadságának könyveiből futottak őket autóinkról szépen magyarországi",
    "italian": "l'università dell’amore cantavano nazionali rapidamente c'è un'altra città parlandone degl'italiani",
    "norwegian": "skolene arbeidet friheten vennligst barnas bøkene undersøkelser hurtigere leserens muligheter",
    "portuguese": "escolas cantavam nacionais rapidamente felicidade ações informática abrindo-as logia corações",
    "russian": "школами бегали свободы книги работающий красивейшая детям общественность ёлками прочитавшись",
    "spanish": "escuelas cantaban nacionales rápidamente felicidad acciones diciéndoselo lógicas averigüéis niñitos",
    "swedish": "skolorna arbetade friheten vänligast barnens böckerna undersökningar snabbare läsarnas löst",
}
# Characters of all classes that the tokenization rules distinguish, in any order.
ALPHABET = "aZé1٣_.,;:'’\"·- \n#日ひカー한ก์שאΣİ\u0301\u00ad\u200b\u200d😀👩🇩"


@pytest.fixture(scope="module")
def analysed(cluster: OpenSearchEngine, packaged: Model) -> Iterator[tuple[OpenSearchEngine, str]]:
    """Return a cluster and an index that Resift created there."""
    index = f"resift-analysis-{uuid.uuid4().hex[:8]}"
    cluster.create(index, ["text"], packaged)
    yield cluster, index
    cluster.drop(index)


@pytest.fixture(scope="module", params=LANGUAGES)
def in_language(
    request: pytest.FixtureRequest, cluster: OpenSearchEngine, packaged: Model
) -> Iterator[tuple[OpenSearchEngine, str, str]]:
    """Return a cluster, an index of a language that Resift created there, and the language."""
    language = str(request.param)
    index = f"resift-analysis-{uuid.uuid4().hex[:8]}"
    cluster.create(index, ["text"], packaged, language)
    yield cluster, index, language
    cluster.drop(index)


def cluster_terms(analysed: tuple[OpenSearchEngine, str], analyzer: str, texts: Sequence[str]) -> list[str]:
    """Return OpenSearch's terms of several texts in a single list."""
    cluster, index = analysed
    answer = cluster.client.indices.analyze(index=index, body={"analyzer": f"resift_{analyzer}", "text": list(texts)})
    return [token["token"] for token in answer["tokens"]]


def all_terms(texts: Sequence[str], analyzer: str) -> list[str]:
    """Return the embedded engine's terms of several texts in a single list."""
    return [term for text in texts for term in terms_of(text, analyzer)]


def test_words_of_a_language(in_language: tuple[OpenSearchEngine, str, str]) -> None:
    cluster, index, language = in_language
    texts = [*SENTENCES, *ODD, *(word for words in LANGUAGE_WORDS.values() for word in words.split())]
    assert all_terms(texts, language) == cluster_terms((cluster, index), language, texts)


@pytest.mark.parametrize("analyzer", ["english", "standard"])
@pytest.mark.parametrize("text", [*SENTENCES, *ODD])
def test_sentences_of_many_languages(analysed: tuple[OpenSearchEngine, str], text: str, analyzer: str) -> None:
    assert terms_of(text, analyzer) == cluster_terms(analysed, analyzer, [text])


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
@given(texts=st.lists(st.text(ALPHABET, max_size=30), min_size=25, max_size=25))
def test_any_combination_of_signs(analysed: tuple[OpenSearchEngine, str], texts: list[str]) -> None:
    assert all_terms(texts, "standard") == cluster_terms(analysed, "standard", texts)


def test_every_word_of_the_packaged_vectors(analysed: tuple[OpenSearchEngine, str], packaged: Model) -> None:
    words = [str(word) for word in packaged.table.words]
    for start in range(0, len(words), 5000):
        some = words[start : start + 5000]
        assert all_terms(some, "english") == cluster_terms(analysed, "english", some)


@pytest.mark.parametrize("analyzer", ANALYZERS)
def test_places_of_words(analyzer: str) -> None:
    for text in [*SENTENCES, *ODD]:
        terms, places = terms_with_spans(text, analyzer)
        assert [term for term in terms if term] == terms_of(text, analyzer)
        for (start, end), (following, _) in pairwise(places):
            assert start < end <= following
