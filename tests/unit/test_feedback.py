"""Feedback: Algorithm 2, ridge regression, and what a session's marks do to a ranking."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from resift import Feedback, Model
from resift.errors import BadInput
from resift.feedback.judgements import JudgedDocument, Judgement
from resift.feedback.mask import learn_mask, spherical_entropy
from resift.feedback.methods import METHODS
from resift.feedback.ridge import Background
from resift.text import bag_of_words, context_dependence
from resift.vectors.similarity import unit_rows
from resift.vectors.weights import discount_alpha


@pytest.fixture
def judged() -> tuple[np.ndarray, np.ndarray]:
    """Five relevant and five irrelevant vectors: dimension 0 tells them apart, dimension 1 is large noise."""
    rng = np.random.default_rng(5)
    both = np.abs(rng.normal(size=(10, 6))).astype(np.float32)
    both[:, 1] *= 3
    both[:5, 0] += 3
    return both[:5], both[5:]


def test_mask_lowers_entropy_and_weights_what_separates(judged: tuple[np.ndarray, np.ndarray]) -> None:
    relevant, irrelevant = judged
    mask = learn_mask(relevant, irrelevant, iterations=50)
    z, labels = np.concatenate(judged), np.repeat([0, 1], 5)
    centres = np.stack([relevant.mean(0), irrelevant.mean(0)])
    before, after = (spherical_entropy(z, labels, centres, 0.1)(r)[0] for r in (np.ones(6), mask))
    assert after < before - 0.02
    assert mask[0] > 1.5 * mask[1]
    assert mask.dtype == np.float32
    assert (learn_mask(relevant, irrelevant, rate=10.0) >= 0).all()


def test_one_kind_of_marks_leaves_the_mask_alone(judged: tuple[np.ndarray, np.ndarray]) -> None:
    none = np.zeros((0, 6), np.float32)
    for relevant, irrelevant in [(judged[0], none), (none, judged[1]), (none, none)]:
        assert (learn_mask(relevant, irrelevant) == 1).all()


def test_no_marks_change_nothing() -> None:
    none = np.zeros((0, 4), np.float32)
    feedback = Feedback.learn(none, none)
    query = np.array([1, 2, 3, 4], np.float32)
    np.testing.assert_array_equal(feedback.transform_query(query), query)
    assert (feedback.mask == 1).all()


def test_zero_and_equal_vectors_never_give_nan() -> None:
    zero, one = np.zeros((2, 4), np.float32), np.ones((2, 4), np.float32)
    for relevant in (zero, one):
        for irrelevant in (zero, one):
            feedback = Feedback.learn(relevant, irrelevant)
            assert np.isfinite(feedback.mask).all()
            assert np.isfinite(feedback.transform_query(np.zeros(4, np.float32))).all()


def test_marks_bring_the_rest_of_a_topic_up(model: Model) -> None:
    documents = model.encode(
        ["fire bush smoke", "fire forest flame", "fire army gun", "fire soldier war", "smoke tree forest"]
    )
    query = model.encode(["fire"])[0]
    feedback = Feedback.learn(documents[[0]], documents[[2]])
    plain = model.score(query, documents)
    learned = model.score(feedback.transform_query(query), documents, feedback.mask)
    unjudged_gap_before = min(plain[1], plain[4]) - plain[3]
    unjudged_gap_after = min(learned[1], learned[4]) - learned[3]
    assert unjudged_gap_after > unjudged_gap_before + 0.05
    assert min(learned[[1, 4]]) > learned[3]


def test_ridge_is_the_regression_around_the_query(judged: tuple[np.ndarray, np.ndarray]) -> None:
    relevant, irrelevant = judged
    query = np.arange(1, 7, dtype=np.float32)
    grades = [1, 1, 1, 0.5, 1, -1, -0.25, -1, -1, -1]
    moved = Feedback.learn(relevant, irrelevant, grades=grades).transform_query(query)
    x = np.concatenate(judged).astype(np.float64)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    prior = 0.3 * query / np.linalg.norm(query)
    weights = np.abs(grades)
    hessian = (x.T * weights) @ x + 2 * np.eye(6)
    expected = np.linalg.solve(hessian, (x.T * weights) @ np.repeat([1.0, 0.0], 5) + 2 * prior)
    np.testing.assert_allclose(moved / np.linalg.norm(moved), expected / np.linalg.norm(expected), rtol=1e-4)
    assert np.linalg.norm(moved) == pytest.approx(np.linalg.norm(query), rel=1e-5)


def test_the_background_keeps_the_similarity_that_it_has(judged: tuple[np.ndarray, np.ndarray]) -> None:
    """By a third of a mark for each of its documents, in six dimensions 6 / 256 of that."""
    relevant, irrelevant = judged
    query, drawn = np.arange(1, 7, dtype=np.float32), np.random.default_rng(1).normal(size=(9, 6)) + 1
    grades = [1, 1, 1, 0.5, 1, -1, -0.25, -1, -1, -1]
    feedback = replace(Feedback.learn(relevant, irrelevant, grades=grades), background=Background(drawn))
    x = unit_rows(np.concatenate([relevant, irrelevant, drawn])).astype(np.float64)
    weights = np.r_[np.abs(grades), np.full(9, 6 / 256 / 3)]
    prior = 0.3 * query / np.linalg.norm(query)
    hessian = (x.T * weights) @ x + 2 * np.eye(6)
    targets = np.r_[np.repeat([1.0, 0.0], 5), x[10:] @ prior]
    expected = np.linalg.solve(hessian, (x.T * weights) @ targets + 2 * prior)
    np.testing.assert_allclose(unit_rows(feedback.transform_query(query)), unit_rows(expected), atol=1e-5)
    nothing = replace(feedback, background=Background(np.zeros((0, 0))))
    np.testing.assert_array_equal(
        nothing.transform_query(query), replace(nothing, background=None).transform_query(query)
    )


@pytest.mark.parametrize("dim", [8, 64, 256])
def test_what_is_like_a_marked_document_comes_up(dim: int) -> None:
    """However much all documents have in common, and however few dimensions there are to tell them apart."""
    rng = np.random.default_rng(dim)
    documents = unit_rows(rng.normal(size=(300, dim)) + 1).astype(np.float32)
    background = Background(documents)
    for row in range(0, 300, 15):
        query = documents[row - 7] + documents[row - 8]
        feedback = Feedback.learn(documents[[row]], documents[:0], grades=[1.0])
        moved = replace(feedback, background=background).transform_query(query)
        before, after = ((documents @ vector > documents[row] @ vector).sum() for vector in (query, moved))
        assert after <= before


def test_a_click_counts_less_than_a_mark(judged: tuple[np.ndarray, np.ndarray]) -> None:
    relevant, none = judged[0][:1], np.zeros((0, 6), np.float32)
    query = np.eye(6, dtype=np.float32)[5]
    near = [Feedback.learn(relevant, none, grades=[grade]).transform_query(query) @ relevant[0] for grade in (0.5, 1.0)]
    assert query @ relevant[0] < near[0] < near[1]


def test_words_of_relevant_documents_are_asked_for(judged: tuple[np.ndarray, np.ndarray]) -> None:
    bags = [bag_of_words(text) for text in ("fire bush fire", "fire smoke", "army fire")]
    feedback = Feedback.learn(judged[0][:2], judged[1][:1], bags=bags)
    assert list(feedback.expansion_terms) == ["fire", "smoke", "bush"]
    fire, bush = (2 / 3) ** 0.5, (1 / 3) ** 0.5
    expected = 4 * (fire + 0.5**0.5) / 5 - 3 * 0.5**0.5 / 4
    assert feedback.expansion_terms["fire"] == pytest.approx(expected)
    assert feedback.expansion_terms["bush"] == pytest.approx(4 * bush / 5)
    assert Feedback.learn(judged[0][:2], judged[1][:1], "mask", bags=bags).expansion_terms == {}
    clicked = Feedback.learn(judged[0][:1], judged[1][:0], grades=[0.5], bags=bags[:1])
    assert clicked.expansion_terms["fire"] == pytest.approx(4 * 0.5 / 3.5 * fire)
    numbers = {"18305": 500.0, "18": 400.0}
    many = Feedback.learn(judged[0][:1], judged[1][:0], bags=[numbers | {f"w{i}": 1 + i for i in range(100)}])
    assert list(many.expansion_terms) == [f"w{i}" for i in range(99, 39, -1)]


def test_scope() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(40, 8)).astype(np.float32)
    near, far = np.eye(8, dtype=np.float32)[[0]], np.eye(8, dtype=np.float32)[[1]]
    feedback = replace(Feedback.learn(np.concatenate([near, far]), noise[:0]), queries=("old", "other"))
    candidates = noise + 0.4 * near
    assert feedback.scoped(near[0], candidates, "old").evidence == 1
    scoped = feedback.scoped(near[0], candidates, "new")
    np.testing.assert_allclose(scoped.vectors, near)
    similarities = (candidates / np.linalg.norm(candidates, axis=1, keepdims=True))[:, 0]
    deviations = (1 - similarities.mean()) / similarities.std()
    expected = 0.5 * (deviations - 1) / 2
    assert 0 < expected < 0.5
    assert scoped.evidence == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(feedback.scoped(near[0], candidates, "other").grades, [expected, 1], rtol=1e-5)
    # too few to compare with: words decide, and it has none of these
    assert not len(feedback.scoped(near[0], candidates[:4], "new").grades)
    assert not len(replace(feedback, grades=-feedback.grades).scoped(near[0], candidates, "new").grades)
    assert feedback.scoped(np.zeros(8, np.float32), candidates) is feedback
    assert replace(feedback, queries=("", "")).scoped(far[0], candidates, "new").evidence == 2
    # beside documents that are all alike, any that is more similar is unusually so
    assert feedback.scoped(near[0], np.repeat(far, 6, axis=0), "new").evidence == pytest.approx(0.5)
    nothing = feedback.scoped(-near[0], candidates, "new")
    np.testing.assert_array_equal(nothing.transform_query(far[0]), far[0])


def test_what_is_carried_over_are_a_few_words_and_no_vector() -> None:
    vectors = np.eye(6, dtype=np.float32)
    bags = [{f"w{i}": 1.0 + i for i in range(30)}, {"own": 1.0}]
    both = replace(Feedback.learn(vectors[:2], vectors[:0], bags=bags), queries=("old", "new"))
    others = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    carried = replace(both, queries=("old", "old")).scoped(vectors[0], others, "new")
    assert set(carried.expansion_terms) <= {*(f"w{i}" for i in range(22, 30)), "own"}
    assert len(carried.expansion_terms) == 8
    np.testing.assert_array_equal(carried.transform_query(vectors[2]), vectors[2])
    assert carried.adjusted_alpha(0.3, 0.6) == 0.3
    # beside what was marked here, which counts as if it were alone
    scoped = both.scoped(vectors[0], others, "new")
    assert "own" in scoped.expansion_terms
    assert len(scoped.expansion_terms) == 9
    np.testing.assert_array_equal(scoped.for_query.vectors, vectors[1:2])
    np.testing.assert_array_equal(scoped.transform_query(vectors[2]), scoped.for_query.transform_query(vectors[2]))
    assert scoped.adjusted_alpha(0.3, 0.6) == scoped.for_query.adjusted_alpha(0.3, 0.6) > 0.3


@pytest.mark.parametrize(
    ("text", "much"),
    [
        ("", 1.0),
        ("fire", 1.0),
        ("What about the bush fires?", 1.0),
        ("bush fire", 0.5),
        ("Do they have natural predators in cold winters?", 0.5),
        ("bush fire season", 0.0),
        ("Why do bush fires start in other dry summer seasons?", 0.0),
    ],
)
def test_a_question_leans_on_others_the_less_it_says(text: str, much: float) -> None:
    assert context_dependence(text) == much


def test_without_vectors_documents_count_by_the_words_of_the_question_that_they_have() -> None:
    bags = [bag_of_words("guinea pigs sleep"), bag_of_words("army war")]
    learned = Feedback.learn(np.eye(2, dtype=np.float32), np.zeros((0, 2), np.float32), bags=bags)
    learned = replace(learned, queries=("guinea pigs", "battles"))
    nothing = np.zeros((0, 0), np.float32)
    query = np.ones(2, np.float32)
    assert learned.scoped(query, nothing, "guinea pigs food").evidence == 0  # stands by itself
    assert learned.scoped(query, nothing, "pigs").grades == pytest.approx([0.5])
    assert learned.scoped(query, nothing, "What about them?").grades == pytest.approx([0.5, 0.5])


def test_scope_at_a_query_of_unknown_words() -> None:
    vectors = np.eye(4, dtype=np.float32)
    bags = [bag_of_words(text) for text in ("Dell Vostro 3510, black", "Bosch GSR 18V", "Asus TUF FX506HM")]
    feedback = Feedback.learn(vectors[:2], vectors[2:3], bags=bags)
    feedback = replace(feedback, queries=("black laptop", "Akkuschrauber", "black laptop"))
    nowhere = np.zeros(4, np.float32)
    # of other queries a document counts by the words that it has, or was judged for; an irrelevant one never does
    for text in ("88729622", "TUF FX506HM-8G"):
        assert feedback.scoped(nowhere, vectors, text).evidence == 0
    assert feedback.scoped(nowhere, vectors, "the Vostro 3515").grades == pytest.approx([0.125])
    assert feedback.scoped(nowhere, vectors, "Akkuschrauber").grades == pytest.approx([1])
    assert feedback.scoped(nowhere, vectors, "Akkuschrauber Koffer").grades == pytest.approx([0.125])
    assert replace(feedback, bags=()).scoped(nowhere, vectors, "Vostro 3510").evidence == 0
    assert replace(feedback, queries=()).scoped(nowhere, vectors, "Vostro 3510").grades == pytest.approx([0.25, 0.125])
    assert replace(feedback, queries=("", "", "")).scoped(nowhere, vectors, "88729622").evidence == 3


def test_alpha_grows_with_evidence(judged: tuple[np.ndarray, np.ndarray]) -> None:
    alphas = [Feedback.learn(judged[0][:count], judged[1]).adjusted_alpha(0.3, 0.6) for count in (0, 1, 5)]
    assert 0.3 < alphas[0] < alphas[1] < alphas[2] < 0.6
    feedback = Feedback.learn(*judged)
    assert (feedback.adjusted_alpha(0.0, 1.0), feedback.adjusted_alpha(0.9, 0.6)) == (0.0, 0.9)
    assert feedback.adjusted_alpha(0.0, 0.5, 1.0) > 0, "what the gate leaves out without a session, marks bring in"
    clicked = Feedback.learn(judged[0][:1], judged[1][:1], grades=[0.5, -0.25])
    assert clicked.evidence == 0.75
    assert clicked.adjusted_alpha(0.2, 0.9) == pytest.approx(0.2 + 0.7 * 0.75 / 3.75)


def test_judged_documents_make_up_for_a_querys_unknown_words_as_far_as_their_own_are_known() -> None:
    marks = [("fire", 1.0, "fire"), ("fire zyx", 0.5, "war")]
    judged = [
        JudgedDocument(Judgement("i", text, grade, query), np.eye(2, dtype=np.float32)[0], text)
        for text, grade, query in marks
    ]

    def known_share(text: str) -> float:
        return 1 / len(text.split())

    def alpha(known: float) -> float:
        return discount_alpha(0.5, known)

    feedback = Feedback.from_judged(judged, 2, known_share=known_share)
    learned, theirs = 1.5 / 4.5, (1 + 0.5 * 0.5) / 1.5
    for known in (0.0, 0.4, 1.0):
        assert feedback.adjusted_alpha(0.5, 0.5, known) == pytest.approx(alpha(known + (theirs - known) * learned))
    assert feedback.adjusted_alpha(0.5, 0.5) == 0.5
    at = feedback.scoped(np.zeros(2), np.zeros((0, 2)), "war", carried_weight=0.0)
    assert at.adjusted_alpha(0.5, 0.5, 0.0) == pytest.approx(alpha(0.5 * 0.5 / 3.5))
    assert Feedback.from_judged(judged, 2).adjusted_alpha(0.5, 0.5, 0.0) == pytest.approx(alpha(learned))
    assert Feedback.from_judged([], 2, known_share=known_share).adjusted_alpha(0.5, 0.5, 0.4) == alpha(0.4)


def test_unknown_method(judged: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.raises(BadInput, match="magic"):
        Feedback.learn(*judged, "magic")


@pytest.mark.parametrize("method", METHODS)
def test_methods_learn_what_their_names_say(judged: tuple[np.ndarray, np.ndarray], method: str) -> None:
    bags = [bag_of_words(text) for text in ("fire", "bush", "army")]
    feedback = Feedback.learn(judged[0][:2], judged[1][:1], method, bags=bags)
    parts = method.split("+")
    assert bool((feedback.mask != 1).any()) == ("mask" in parts)
    assert bool(feedback.expansion_terms) == ("lexical" in parts)
    assert bool(feedback.shift.any()) == ("ridge" in parts)
    query = np.eye(6, dtype=np.float32)[5]
    assert bool((feedback.transform_query(query) != query).any()) == bool(feedback.shift.any())
    assert feedback.mask.dtype == feedback.shift.dtype == feedback.transform_query(query).dtype == np.float32


@pytest.mark.parametrize(
    ("deviations", "counts"), [(0.5, 0), (1.0, 0), (1.5, 0.125), (2.0, 0.25), (3.0, 0.5), (4.0, 0.5)]
)
def test_scope_grows_from_one_to_three_deviations_above_other_documents(deviations: float, counts: float) -> None:
    query = np.array([1, 0], np.float32)
    similarities = np.array([0.1, 0.1, 0.2, 0.3, 0.3])  # as few as say anything
    candidates = np.stack([similarities, np.sqrt(1 - similarities**2)], 1)
    near = 0.2 + deviations * similarities.std()
    one = Feedback.learn(np.array([[near, np.sqrt(1 - near**2)]]), np.zeros((0, 2)))
    elsewhere = replace(one, queries=("other",))
    assert elsewhere.scoped(query, 3 * candidates, "new").evidence == pytest.approx(counts, abs=1e-5)
    assert elsewhere.scoped(7 * query, candidates, "new").evidence == pytest.approx(counts, abs=1e-5)
    assert one.scoped(query, candidates, "new").evidence == pytest.approx(counts, abs=1e-5)
    assert elsewhere.scoped(query, candidates, "other") is elsewhere
    assert elsewhere.scoped(query, candidates[:4], "new").evidence == 0


def test_a_skipped_document_says_nothing_of_what_else_was_judged_at_its_query() -> None:
    similarities = np.array([0, 0.1, 0.2, 0.3, 0.4, 0.3, 0.9])  # the last two were judged at another query
    vectors = np.stack([similarities, np.sqrt(1 - similarities**2)], 1)
    for grade, counted in ((-0.25, 0), (0.5, 2)):
        one = Feedback.learn(vectors[5:], vectors[:0], grades=[1, grade])
        scoped = replace(one, queries=("other", "other")).scoped(np.array([1, 0]), vectors[:5], "new")
        assert len(scoped.grades) == counted


def test_a_query_without_known_words_is_moved_to_what_is_relevant(judged: tuple[np.ndarray, np.ndarray]) -> None:
    feedback = Feedback.learn(judged[0][:1], judged[1][:0])
    alone = judged[0][0] / np.linalg.norm(judged[0][0])
    np.testing.assert_allclose(feedback.transform_query(np.zeros(6)), alone, rtol=1e-5)


def test_a_session_learns_from_its_judged_documents() -> None:
    vectors = 2 * np.eye(3, dtype=np.float32)
    marks = [("army gun", -1.0, "war"), ("fire bush", 1.0, "fire"), ("gun", -0.25, ""), ("fire", 0.5, "war")]
    judged = [
        JudgedDocument(Judgement("i", text, grade, query), vectors[i % 3], text)
        for i, (text, grade, query) in enumerate(marks)
    ]
    feedback = Feedback.from_judged(judged, 3, lambda word: 3.0 if word == "fire" else 4.0)
    assert feedback.grades.tolist() == [1, 0.5, -1, -0.25]
    assert feedback.positions == (1, 3, 0, 2)
    assert feedback.queries == ("fire", "war", "war", "")
    np.testing.assert_array_equal(feedback.vectors, vectors[[1, 0, 0, 2]] / 2)
    assert feedback.bags[0] == pytest.approx({"fire": 0.6, "bush": 0.8})
    at = feedback.scoped(np.zeros(3), vectors, "war", carried_weight=0.0)
    assert (at.grades.tolist(), at.queries, at.positions) == ([0.5, -1, -0.25], ("war", "war", ""), (3, 0, 2))
    assert at.bags == feedback.bags[1:]
    np.testing.assert_array_equal(at.vectors, feedback.vectors[1:])
    assert Feedback.from_judged(judged, 3, method="mask").bags == ()
    assert Feedback.from_judged([], 3).shift.tolist() == [0, 0, 0]
    assert Feedback.from_judged([], 3).scoped(vectors[0], vectors, "war").vectors.shape == (0, 3)


def test_a_mask_goes_with_the_judgements_that_it_was_learned_from(judged: tuple[np.ndarray, np.ndarray]) -> None:
    feedback = replace(Feedback.learn(*judged, "mask"), queries=("fire",) * 5 + ("war",) * 5)
    none = np.zeros(len(feedback.mask))
    np.testing.assert_array_equal(feedback.scoped(none, none[None], "fire", carried_weight=0.0).mask, feedback.mask)
    assert (feedback.scoped(none, none[None], "rain", carried_weight=0.0).mask == 1).all()
    assert (feedback.mask != 1).any()


def test_function_words_are_not_learned() -> None:
    assert bag_of_words("What do you know about the Fire?") == bag_of_words("know fire")
    assert "fire" in bag_of_words("the fire")  # a stop word of the longer list, but what a text may be about


def test_a_text_without_words_or_weights_has_an_empty_or_zero_bag() -> None:
    assert bag_of_words("?!") == bag_of_words("the of") == {}
    assert bag_of_words("love it ❤\ufe0f❤\ufe0f") == bag_of_words("love it")  # a variation selector is no word
    assert bag_of_words("fire bush", lambda word: 0.0) == {"fire": 0, "bush": 0}
