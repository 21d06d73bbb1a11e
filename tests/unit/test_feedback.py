"""Tests of feedback: the mask, ridge regression, expansion words, and judgements of earlier queries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from resift import Feedback, Model
from resift.errors import BadInput
from resift.feedback.field_feedback import FieldFeedback
from resift.feedback.judgements import JudgedDocument, Judgement
from resift.feedback.mask import learn_mask, spherical_entropy
from resift.feedback.methods import METHODS
from resift.feedback.ridge import Background
from resift.text import bag_of_words, context_dependence
from resift.vectors.similarity import unit_rows
from resift.vectors.weights import discount_alpha


@pytest.fixture
def judged() -> tuple[np.ndarray, np.ndarray]:
    """Return five relevant and five irrelevant vectors. Dimension 0 separates them, dimension 1 is large noise."""
    rng = np.random.default_rng(5)
    vectors = np.abs(rng.normal(size=(10, 6))).astype(np.float32)
    vectors[:, 1] *= 3
    vectors[:5, 0] += 3
    return vectors[:5], vectors[5:]


def test_the_mask_lowers_the_entropy(
    judged: tuple[np.ndarray, np.ndarray],
) -> None:
    relevant, irrelevant = judged
    mask = learn_mask(relevant, irrelevant, iterations=50)
    z, labels = np.concatenate(judged), np.repeat([0, 1], 5)
    centres = np.stack([relevant.mean(0), irrelevant.mean(0)])
    before, after = (spherical_entropy(z, labels, centres, 0.1)(r)[0] for r in (np.ones(6), mask))
    assert after < before - 0.02
    assert mask[0] > 1.5 * mask[1]
    assert mask.dtype == np.float32
    assert (learn_mask(relevant, irrelevant, rate=10.0) >= 0).all()


def test_the_mask_stays_1_without_documents_of_both_classes(judged: tuple[np.ndarray, np.ndarray]) -> None:
    none = np.zeros((0, 6), np.float32)
    for relevant, irrelevant in [(judged[0], none), (none, judged[1]), (none, none)]:
        assert (learn_mask(relevant, irrelevant) == 1).all()


def test_feedback_without_judgements_changes_nothing() -> None:
    none = np.zeros((0, 4), np.float32)
    feedback = Feedback.learn(none, none)
    query = np.array([1, 2, 3, 4], np.float32)
    np.testing.assert_array_equal(feedback.transform_query(query), query)
    assert (feedback.mask == 1).all()


def test_zero_and_equal_vectors_give_finite_results() -> None:
    zeros, ones = np.zeros((2, 4), np.float32), np.ones((2, 4), np.float32)
    for relevant in (zeros, ones):
        for irrelevant in (zeros, ones):
            feedback = Feedback.learn(relevant, irrelevant)
            assert np.isfinite(feedback.mask).all()
            assert np.isfinite(feedback.transform_query(np.zeros(4, np.float32))).all()


def test_judgements_raise_unjudged_documents_of_the_same_topic(model: Model) -> None:
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


def test_the_ridge_regression_follows_its_definition(judged: tuple[np.ndarray, np.ndarray]) -> None:
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


def test_the_background_joins_the_regression(judged: tuple[np.ndarray, np.ndarray]) -> None:
    """Its documents have the weight of a third of a mark, in six dimensions 6 / 256 of a third."""
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
    empty = replace(feedback, background=Background(np.zeros((0, 0))))
    np.testing.assert_array_equal(empty.transform_query(query), replace(empty, background=None).transform_query(query))


@pytest.mark.parametrize("dim", [8, 64, 256])
def test_a_relevant_document_never_moves_down(dim: int) -> None:
    """The documents have a large common component, and there are few dimensions."""
    rng = np.random.default_rng(dim)
    documents = unit_rows(rng.normal(size=(300, dim)) + 1).astype(np.float32)
    background = Background(documents)
    for row in range(0, 300, 15):
        query = documents[row - 7] + documents[row - 8]
        feedback = Feedback.learn(documents[[row]], documents[:0], grades=[1.0])
        moved = replace(feedback, background=background).transform_query(query)
        before, after = ((documents @ vector > documents[row] @ vector).sum() for vector in (query, moved))
        assert after <= before


def test_a_click_moves_a_query_less_than_a_mark(judged: tuple[np.ndarray, np.ndarray]) -> None:
    relevant, none = judged[0][:1], np.zeros((0, 6), np.float32)
    query = np.eye(6, dtype=np.float32)[5]
    near = [Feedback.learn(relevant, none, grades=[grade]).transform_query(query) @ relevant[0] for grade in (0.5, 1.0)]
    assert query @ relevant[0] < near[0] < near[1]


def test_expansion_words_follow_the_formula(judged: tuple[np.ndarray, np.ndarray]) -> None:
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


def test_single_letters_are_expansion_words_only_of_queries_with_them(judged: tuple[np.ndarray, np.ndarray]) -> None:
    def words(text: str, query: str = "x rays") -> list[str]:
        learned = Feedback.learn(judged[0][:1], judged[1][:0], bags=[bag_of_words(text)])
        feedback = replace(learned, queries=(query,))
        carried = replace(feedback, is_for_query=(False,))
        assert list(carried.carried_terms) == list(carried.expansion_terms) == list(feedback.expansion_terms)
        return sorted(feedback.expansion_terms)

    assert words("vitamin d, y, é and x") == ["vitamin", "x"]
    assert words("vitamin d, y, é and x", "Vitamin D") == ["d", "vitamin"]
    assert words("d y") == ["d", "y"]
    assert words("火 d") == ["火"]


def test_judgements_of_earlier_queries_count_by_nearness() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(40, 8)).astype(np.float32)
    near, far = np.eye(8, dtype=np.float32)[[0]], np.eye(8, dtype=np.float32)[[1]]
    feedback = replace(Feedback.learn(np.concatenate([near, far]), noise[:0]), queries=("old", "other"))
    candidates = noise + 0.4 * near
    assert feedback.scoped_to_query(near[0], candidates, "old").evidence == 1
    scoped = feedback.scoped_to_query(near[0], candidates, "new")
    np.testing.assert_allclose(scoped.vectors, near)
    similarities = (candidates / np.linalg.norm(candidates, axis=1, keepdims=True))[:, 0]
    deviations = (1 - similarities.mean()) / similarities.std()
    expected = 0.5 * (deviations - 1) / 2
    assert 0 < expected < 0.5
    assert scoped.evidence == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(feedback.scoped_to_query(near[0], candidates, "other").grades, [expected, 1], rtol=1e-5)
    # with four background documents the words decide, and the judged documents have none of them
    assert not len(feedback.scoped_to_query(near[0], candidates[:4], "new").grades)
    assert not len(replace(feedback, grades=-feedback.grades).scoped_to_query(near[0], candidates, "new").grades)
    assert feedback.scoped_to_query(np.zeros(8, np.float32), candidates) is feedback
    # judgements without a query count like judgements for another query, and do not raise each other
    without_query = replace(feedback, queries=("", ""))
    scoped = without_query.scoped_to_query(near[0], candidates, "new")
    np.testing.assert_allclose(scoped.grades, [expected], rtol=1e-5)
    np.testing.assert_array_equal(scoped.transform_query(near[0]), near[0])
    assert not len(without_query.scoped_to_query(near[0], candidates, "new bush fires in summer").grades)
    assert without_query.scoped_to_query(near[0], candidates, "") is without_query
    # if all background documents are equal, any document that is more similar has the maximum weight
    assert feedback.scoped_to_query(near[0], np.repeat(far, 6, axis=0), "new").evidence == pytest.approx(0.5)
    empty = feedback.scoped_to_query(-near[0], candidates, "new")
    np.testing.assert_array_equal(empty.transform_query(far[0]), far[0])


def test_judgements_of_earlier_queries_add_eight_words_and_move_no_vector() -> None:
    vectors = np.eye(6, dtype=np.float32)
    bags = [{f"w{i}": 1.0 + i for i in range(30)}, {"own": 1.0}]
    both = replace(Feedback.learn(vectors[:2], vectors[:0], bags=bags), queries=("old", "new"))
    others = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    carried = replace(both, queries=("old", "old")).scoped_to_query(vectors[0], others, "new")
    assert set(carried.expansion_terms) <= {*(f"w{i}" for i in range(22, 30)), "own"}
    assert len(carried.expansion_terms) == 8
    np.testing.assert_array_equal(carried.transform_query(vectors[2]), vectors[2])
    assert carried.adjusted_alpha(0.3, 0.6) == 0.3
    # judgements of the current query count as if there were no others
    scoped = both.scoped_to_query(vectors[0], others, "new")
    assert "own" in scoped.expansion_terms
    assert len(scoped.expansion_terms) == 9
    np.testing.assert_array_equal(scoped.for_query.vectors, vectors[1:2])
    np.testing.assert_array_equal(scoped.transform_query(vectors[2]), scoped.for_query.transform_query(vectors[2]))
    assert scoped.adjusted_alpha(0.3, 0.6) == scoped.for_query.adjusted_alpha(0.3, 0.6) > 0.3


def test_judgements_move_the_vector_of_a_refined_query() -> None:
    vectors = np.eye(6, dtype=np.float32)
    bags = [bag_of_words("smoke of the season"), bag_of_words("army")]
    learned = Feedback.learn(vectors[:1], vectors[1:2], bags=bags)
    others = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    background = others + 0.4 * vectors[0]
    query = vectors[0] + vectors[2]

    def scoped(judged: str, text: str) -> Feedback:
        return replace(learned, queries=(judged, judged)).scoped_to_query(query, background, text)

    narrowed = scoped("bush fires", "large bush fire seasons")
    assert 0 < narrowed.evidence < 0.5  # the irrelevant document does not count
    assert narrowed.expansion_terms.keys() == {"smoke", "season"}
    assert narrowed.transform_query(query)[0] > query[0]
    assert scoped("large bush fire season", "bush fire").grades == narrowed.grades
    assert scoped("bush fires", "large bush fire engines").evidence == 0  # no marked document is about engines
    assert scoped("bush cricket season", "bush fire season").evidence == 0
    assert scoped("what is this", "large bush fire season").evidence == 0


@pytest.mark.parametrize(
    ("text", "expected"),
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
def test_short_questions_and_references_depend_on_context(text: str, expected: float) -> None:
    assert context_dependence(text) == expected


def test_without_vectors_nearness_is_the_share_of_common_words() -> None:
    bags = [bag_of_words("guinea pigs sleep"), bag_of_words("army war")]
    learned = Feedback.learn(np.eye(2, dtype=np.float32), np.zeros((0, 2), np.float32), bags=bags)
    learned = replace(learned, queries=("guinea pigs", "battles"))
    no_background = np.zeros((0, 0), np.float32)
    query = np.ones(2, np.float32)
    assert learned.scoped_to_query(query, no_background, "guinea pigs food").evidence == 0  # a self-contained question
    refined = learned.scoped_to_query(query, no_background, "sleeping guinea pigs")
    assert refined.grades == pytest.approx([0.5 * 2 / 3])
    assert learned.scoped_to_query(query, no_background, "pigs").grades == pytest.approx([0.5])
    assert learned.scoped_to_query(query, no_background, "What about them?").grades == pytest.approx([0.5, 0.5])


def test_at_a_query_of_unknown_words_only_common_words_count() -> None:
    vectors = np.eye(4, dtype=np.float32)
    bags = [bag_of_words(text) for text in ("Dell Vostro 3510, black", "Bosch GSR 18V", "Asus TUF FX506HM")]
    feedback = Feedback.learn(vectors[:2], vectors[2:3], bags=bags)
    feedback = replace(feedback, queries=("black laptop", "Akkuschrauber", "black laptop"))
    zero = np.zeros(4, np.float32)
    # relevant documents count by the words that they or their queries contain; irrelevant documents do not count
    for text in ("88729622", "TUF FX506HM-8G"):
        assert feedback.scoped_to_query(zero, vectors, text).evidence == 0
    assert feedback.scoped_to_query(zero, vectors, "the Vostro 3515").grades == pytest.approx([0.125])
    assert feedback.scoped_to_query(zero, vectors, "Akkuschrauber").grades == pytest.approx([1])
    assert feedback.scoped_to_query(zero, vectors, "Akkuschrauber Koffer").grades == pytest.approx([0.125])
    assert replace(feedback, bags=()).scoped_to_query(zero, vectors, "Vostro 3510").evidence == 0
    for unknown in ((), ("", "", "")):
        scoped = replace(feedback, queries=unknown).scoped_to_query(zero, vectors, "Vostro 3510")
        assert (scoped.grades.tolist(), scoped.positions) == ([0.25], feedback.positions[:1])
    assert replace(feedback, queries=("", "", "")).scoped_to_query(zero, vectors, "88729622").evidence == 0


def test_alpha_increases_with_the_evidence(judged: tuple[np.ndarray, np.ndarray]) -> None:
    alphas = [Feedback.learn(judged[0][:count], judged[1]).adjusted_alpha(0.3, 0.6) for count in (0, 1, 5)]
    assert 0.3 < alphas[0] < alphas[1] < alphas[2] < 0.6
    feedback = Feedback.learn(*judged)
    assert (feedback.adjusted_alpha(0.0, 1.0), feedback.adjusted_alpha(0.9, 0.6)) == (0.0, 0.9)
    assert feedback.adjusted_alpha(0.0, 0.5, 1.0) > 0, "judgements raise a default weight of 0"
    clicked = Feedback.learn(judged[0][:1], judged[1][:1], grades=[0.5, -0.25])
    assert clicked.evidence == 0.75
    assert clicked.adjusted_alpha(0.2, 0.9) == pytest.approx(0.2 + 0.7 * 0.75 / 3.75)


def test_the_known_share_approaches_that_of_the_judged_documents() -> None:
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
    learned, document_share = 1.5 / 4.5, (1 + 0.5 * 0.5) / 1.5
    for known in (0.0, 0.4, 1.0):
        expected = alpha(known + (document_share - known) * learned)
        assert feedback.adjusted_alpha(0.5, 0.5, known) == pytest.approx(expected)
    assert feedback.adjusted_alpha(0.5, 0.5) == 0.5
    scoped = feedback.scoped_to_query(np.zeros(2), np.zeros((0, 2)), "war", carried_weight=0.0)
    assert scoped.adjusted_alpha(0.5, 0.5, 0.0) == pytest.approx(alpha(0.5 * 0.5 / 3.5))
    assert Feedback.from_judged(judged, 2).adjusted_alpha(0.5, 0.5, 0.0) == pytest.approx(alpha(learned))
    assert Feedback.from_judged([], 2, known_share=known_share).adjusted_alpha(0.5, 0.5, 0.4) == alpha(0.4)


def test_an_unknown_method_is_refused(judged: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.raises(BadInput, match="magic"):
        Feedback.learn(*judged, "magic")


@pytest.mark.parametrize("method", METHODS)
def test_methods_learn_the_parts_in_their_names(judged: tuple[np.ndarray, np.ndarray], method: str) -> None:
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
    ("deviations", "expected"), [(0.5, 0), (1.0, 0), (1.5, 0.125), (2.0, 0.25), (3.0, 0.5), (4.0, 0.5)]
)
def test_nearness_increases_from_one_to_three_deviations_above_the_background(
    deviations: float, expected: float
) -> None:
    query = np.array([1, 0], np.float32)
    similarities = np.array([0.1, 0.1, 0.2, 0.3, 0.3])  # the minimum number of documents
    candidates = np.stack([similarities, np.sqrt(1 - similarities**2)], 1)
    near = 0.2 + deviations * similarities.std()
    without_query = Feedback.learn(np.array([[near, np.sqrt(1 - near**2)]]), np.zeros((0, 2)))
    feedback = replace(without_query, queries=("other",))
    assert feedback.scoped_to_query(query, 3 * candidates, "new").evidence == pytest.approx(expected, abs=1e-5)
    assert feedback.scoped_to_query(7 * query, candidates, "new").evidence == pytest.approx(expected, abs=1e-5)
    assert without_query.scoped_to_query(query, candidates, "new").evidence == pytest.approx(expected, abs=1e-5)
    assert feedback.scoped_to_query(query, candidates, "other") is feedback
    assert feedback.scoped_to_query(query, candidates[:4], "new").evidence == 0


def test_a_skipped_document_does_not_raise_the_nearness_of_its_query() -> None:
    similarities = np.array([0, 0.1, 0.2, 0.3, 0.4, 0.3, 0.9])  # the last two were judged for an earlier query
    vectors = np.stack([similarities, np.sqrt(1 - similarities**2)], 1)
    for grade, expected in ((-0.25, 0), (0.5, 2)):
        feedback = Feedback.learn(vectors[5:], vectors[:0], grades=[1, grade])
        scoped = replace(feedback, queries=("other", "other")).scoped_to_query(np.array([1, 0]), vectors[:5], "new")
        assert len(scoped.grades) == expected


def test_a_zero_query_is_moved_to_the_relevant_document(judged: tuple[np.ndarray, np.ndarray]) -> None:
    feedback = Feedback.learn(judged[0][:1], judged[1][:0])
    document = judged[0][0] / np.linalg.norm(judged[0][0])
    np.testing.assert_allclose(feedback.transform_query(np.zeros(6)), document, rtol=1e-5)


def test_feedback_from_judged_documents_puts_relevant_documents_first() -> None:
    vectors = 2 * np.eye(3, dtype=np.float32)
    marks = [("army gun", -1.0, "war"), ("fire bush", 1.0, "fire"), ("gun", -0.25, "war"), ("fire", 0.5, "war")]
    judged = [
        JudgedDocument(Judgement("i", text, grade, query), vectors[i % 3], text)
        for i, (text, grade, query) in enumerate(marks)
    ]
    feedback = Feedback.from_judged(judged, 3, lambda word: 3.0 if word == "fire" else 4.0)
    assert feedback.grades.tolist() == [1, 0.5, -1, -0.25]
    assert feedback.positions == (1, 3, 0, 2)
    assert feedback.queries == ("fire", "war", "war", "war")
    np.testing.assert_array_equal(feedback.vectors, vectors[[1, 0, 0, 2]] / 2)
    assert feedback.bags[0] == pytest.approx({"fire": 0.6, "bush": 0.8})
    scoped = feedback.scoped_to_query(np.zeros(3), vectors, "war", carried_weight=0.0)
    assert (scoped.grades.tolist(), scoped.positions) == ([0.5, -1, -0.25], (3, 0, 2))
    assert scoped.queries == ("war", "war", "war")
    assert scoped.bags == feedback.bags[1:]
    np.testing.assert_array_equal(scoped.vectors, feedback.vectors[1:])
    assert Feedback.from_judged(judged, 3, method="mask").bags == ()
    assert Feedback.from_judged([], 3).shift.tolist() == [0, 0, 0]
    assert Feedback.from_judged([], 3).scoped_to_query(vectors[0], vectors, "war").vectors.shape == (0, 3)


def test_the_mask_applies_only_with_judgements_of_the_current_query(judged: tuple[np.ndarray, np.ndarray]) -> None:
    feedback = replace(Feedback.learn(*judged, "mask"), queries=("fire",) * 5 + ("war",) * 5)
    zero = np.zeros(len(feedback.mask))
    np.testing.assert_array_equal(
        feedback.scoped_to_query(zero, zero[None], "fire", carried_weight=0.0).mask, feedback.mask
    )
    assert (feedback.scoped_to_query(zero, zero[None], "rain", carried_weight=0.0).mask == 1).all()
    assert (feedback.mask != 1).any()


def test_a_mask_of_an_own_field_moves_its_query_by_the_squared_weights() -> None:
    """The inner product with mask² ⊙ query is that of the masked query and the masked document."""
    learned = Feedback.learn(np.eye(3, dtype=np.float32)[:1], np.eye(3, dtype=np.float32)[1:2], "mask")
    own = np.array([[2, 2, 0, 0], [0, 2, 2, 0]], np.float32)
    feedback = learned.with_vectors(dict(enumerate(own)), Background(np.zeros((0, 4), np.float32)))
    np.testing.assert_array_equal(feedback.mask, learn_mask(unit_rows(own[:1]), unit_rows(own[1:])))
    assert feedback.mask.tolist() != [1, 1, 1, 1]
    query = np.array([1, 1, 1, 1], np.float32)
    moved = FieldFeedback(feedback, np.linalg.norm(own, axis=1)).move_query(query, topic_separation=1.0)
    share = 2 / (0.6 + 2)
    expected = (1 - share) * unit_rows(query) + share * unit_rows(feedback.mask**2)
    np.testing.assert_allclose(unit_rows(moved), unit_rows(expected), rtol=1e-5)
    assert np.linalg.norm(moved) == pytest.approx(2)


def test_bags_of_words_leave_out_function_words() -> None:
    assert bag_of_words("What do you know about the Fire?") == bag_of_words("know fire")
    assert "fire" in bag_of_words("the fire")  # a stop word of the list, but a possible subject of a text


def test_bags_of_texts_without_words_or_weights() -> None:
    assert bag_of_words("?!") == bag_of_words("the of") == {}
    assert bag_of_words("love it ❤\ufe0f❤\ufe0f") == bag_of_words("love it")  # a variation selector is not a word
    assert bag_of_words("fire bush", lambda word: 0.0) == {"fire": 0, "bush": 0}
