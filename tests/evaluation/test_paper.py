from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tacit.errors import FileError, InvalidInputError, TacitError
from tacit.evaluation.curves import STYLES, spread_apart
from tacit.evaluation.paper.analysis import Point, difference, point
from tacit.evaluation.paper.comparisons import KINDEST, MAIN, Comparison, compare
from tacit.evaluation.paper.compute import Reproduction, check_folder, compute
from tacit.evaluation.paper.experiments import EXPERIMENTS, FAST, FULL, Effort, Plan, experiment_named, jobs_of
from tacit.evaluation.paper.methods import (
    BASELINE,
    BLP_MOG,
    BLP_SVD,
    CONSTANT,
    ISGD,
    LAPLACE_MOG,
    LAPLACE_SVD,
    PGMF,
    PGMF_WEAKEST,
    PUBLISHED,
    RANKED,
    TACIT,
    TACIT_ALL,
    TACIT_DEVICE,
    TACIT_TAILORED,
    TACIT_WITHOUT_REPORTS,
    TUNED,
)
from tacit.evaluation.paper.past import SHOWN, idea_rows, list_rows
from tacit.evaluation.paper.records import FoldTable, Place, options_text
from tacit.evaluation.paper.report import save_report, verdicts_text
from tacit.evaluation.paper.side_tables import communication_rows, noise_rows
from tacit.evaluation.paper.verdict import HOLDS, NOT, ONLY_IF
from tacit.evaluation.paper.verdicts import judge
from tacit.evaluation.ratings import rating_data
from tacit.evaluation.results import ResultStore
from tacit.evaluation.rows import MEASURES
from tacit.evaluation.setting import DEVICE
from tacit.evaluation.world import WorldShape, make_world
from tacit.privacy.scale import RatingScale
from tacit.tables import column_of, write_columns

if TYPE_CHECKING:
    from pathlib import Path

    from tacit.evaluation.paper.methods import Method
    from tacit.evaluation.ratings import RatingData
    from tacit.learning import Options

EFFORT = Effort(("0.1", "1"), 2, (0,), (1, 3))
TINY = Plan("tiny", EFFORT, EFFORT, EFFORT, EFFORT, None, ("0.1",))

ALL_METHODS = (BLP_MOG, LAPLACE_MOG, BLP_SVD, LAPLACE_SVD, ISGD, PGMF, *TACIT_ALL, BASELINE, CONSTANT)


def row(method: Method, options: Options, epsilon: str, place: Place, **measures: float) -> dict[str, Any]:
    return {
        **dict.fromkeys(MEASURES, 0.5),
        **measures,
        "data": "ml-100k",
        "scale": "1:5:1",
        "mechanism": method.mechanism,
        "epsilon": epsilon,
        "model": options.model,
        "options": options_text(options),
        "at": method.at,
        "data_sha256": "0",
        "seed": place.seed,
        "folds": 10,
        "fold": place.fold,
        "n_train": 90,
        "n_test": 10,
        "users": 5,
        "fit_seconds": 0.1,
        "threshold": 3.4,
    }


def table(errors: dict[tuple[str, int, str], float], *, noise: float = 0.001) -> FoldTable:
    """Make results of methods at ranks and epsilons: a mean error each, and some noise over folds."""
    methods, rng, rows = {method.key: method for method in ALL_METHODS}, np.random.default_rng(0), []
    for (key, rank, epsilon), error in errors.items():
        method = methods[key]
        options = next(one for one in method.all_options if getattr(one, "rank", 1) == rank)
        for fold in range(10):
            measured = round(error + noise * rng.standard_normal(), 6)
            rows.append(row(method, options, epsilon, Place(0, fold), rmse=measured, f_score=round(1 / measured, 6)))
    return FoldTable(rows)


def test_readings_are_about_equally_rich_for_every_method() -> None:
    for method in (BLP_MOG, LAPLACE_MOG, BLP_SVD, LAPLACE_SVD, ISGD, PGMF, BASELINE):
        assert len(method.options(PUBLISHED)) == 1
        assert len(method.options(RANKED)) == 4
        assert 8 <= len(method.options(TUNED)) <= 16
        assert method.published in method.ranked


def test_every_method_has_a_style_that_grey_can_tell_apart() -> None:
    keys = {method.key for method in ALL_METHODS} | {"everything"}
    assert len({(STYLES[key].dashes, STYLES[key].marker) for key in keys}) == len(keys)


def test_every_setting_is_asked_for_once() -> None:
    for plan in (FULL, FAST):
        jobs = jobs_of(plan, tuple(EXPERIMENTS))
        assert len(jobs) == len(set(jobs))
        assert all(job.folds <= job.setting.folds for job in jobs)
    assert len(jobs_of(FAST, tuple(EXPERIMENTS))) < len(jobs_of(FULL, tuple(EXPERIMENTS))) / 4


def test_an_unknown_figure_is_refused_with_all_names() -> None:
    with pytest.raises(InvalidInputError, match="noise, mechanisms, models, pg-mf, isgd, readings, communication"):
        experiment_named("figure 9")


def test_the_setting_of_a_fold_is_chosen_by_the_other_folds() -> None:
    one, three = (replace(BLP_MOG.published, rank=rank) for rank in (1, 3))
    errors = {1: [1.0] * 10, 3: [1.1] * 10}
    errors[1][4] = 3.0  # bad luck in one fold: the others do not see it there, and it counts against rank 1 elsewhere
    rows = [
        row(BLP_MOG, options, "1", Place(0, fold), rmse=errors[rank][fold])
        for rank, options in ((1, one), (3, three))
        for fold in range(10)
    ]
    found = point(FoldTable(rows), "ml-100k", BLP_MOG, RANKED, "1", measure="rmse")
    assert found is not None
    chosen = {place.fold: json.loads(result["options"])["rank"] for place, result in found.results.items()}
    assert chosen == {fold: 1 if fold == 4 else 3 for fold in range(10)}


def test_without_correction_the_test_is_a_paired_t_test() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.standard_normal(10), rng.standard_normal(10) + 0.5
    points = [
        Point("1", {Place(0, k): {"rmse": value, "n_train": 1, "n_test": 0} for k, value in enumerate(values)})
        for values in (first, second)
    ]
    found = difference(*points, "rmse")
    assert found.p_value == pytest.approx(stats.ttest_rel(first, second).pvalue)
    shared = [
        Point("1", {place: one | {"n_train": 9, "n_test": 1} for place, one in p.results.items()}) for p in points
    ]
    assert difference(*shared, "rmse").p_value > found.p_value


def test_equal_results_are_even_and_constant_differences_are_sure() -> None:
    same = Point("1", {Place(0, k): {"rmse": 1.0, "n_train": 9, "n_test": 1} for k in range(3)})
    less = Point("1", {Place(0, k): {"rmse": 0.5, "n_train": 9, "n_test": 1} for k in range(3)})
    assert difference(same, same, "rmse").outcome(lower_is_better=True) == "even"
    assert difference(less, same, "rmse").outcome(lower_is_better=True) == "better"
    assert difference(less, same, "rmse").outcome(lower_is_better=False) == "worse"
    alone = Point("1", {Place(0, 0): less.results[Place(0, 0)]})
    assert difference(alone, same, "rmse").outcome(lower_is_better=True) == "even"


@pytest.mark.parametrize(
    ("isgd", "verdict", "condition"),
    [
        ((1.3, 1.2), HOLDS, ""),
        ((1.3, 1.0), ONLY_IF, "epsilon up to 0.1 (MovieLens 100K)"),
        ((1.1, 1.0), NOT, ""),
        ((1.1, 1.2), ONLY_IF, "epsilon from 1 on (MovieLens 100K)"),
    ],
)
def test_a_verdict_says_where_a_claim_holds(isgd: tuple[float, float], verdict: str, condition: str) -> None:
    errors = {("blp-mog", 1, "0.1"): 1.2, ("blp-mog", 1, "1"): 1.1}
    errors |= {("isgd", 1, "0.1"): isgd[0], ("isgd", 1, "1"): isgd[1]}
    found = {one.claim: one for one in judge(table(errors), [], [])}
    judged = found["BLP-MoG-MF has lower RMSE than ISGD at every epsilon"]
    missing = "without Jester 1, part 1, Libimseti, 2,000 raters, which was not at hand"
    assert judged.verdict == verdict
    assert judged.condition == (f"{condition} ({missing})" if condition else missing)


def test_a_claim_that_holds_under_one_reading_only_says_which() -> None:
    errors = {("blp-mog", 1, "1"): 1.1, ("isgd", 1, "1"): 1.0, ("isgd", 3, "1"): 1.3, ("blp-mog", 3, "1"): 1.2}
    found = {one.claim: one for one in judge(table(errors), [], [])}
    judged = found["BLP-MoG-MF has lower RMSE than ISGD at every epsilon"]
    assert judged.words.startswith("holds only if every method is taken at rank 3 (without Jester")
    assert dict(judged.readings)[f"If {MAIN}"] == "MovieLens 100K: worse at every epsilon"


def test_the_kindest_reading_may_take_the_weakest_rival() -> None:
    options = PGMF_WEAKEST.published
    rows = table({("blp-mog", 1, "1"): 1.1, ("pg-mf", 1, "1"): 1.0}).rows
    rows += [row(PGMF, options, "1", Place(0, fold), rmse=1.3 + fold / 1000) for fold in range(10)]
    comparison = Comparison("ml-100k", BLP_MOG, PGMF, "rmse", PGMF_WEAKEST)
    found = compare(FoldTable(rows), comparison, KINDEST)
    assert found is not None
    assert found.holds


def test_nothing_is_judged_without_results() -> None:
    assert [one.figure for one in judge(FoldTable([]), [], [])] == ["noise"]  # the exact loss needs none


def test_results_come_back_from_a_file(tmp_path: Path) -> None:
    made = table({("blp-mog", 1, "0.1"): 1.2, ("baseline", 1, "-"): 0.9})
    made.save(tmp_path / "folds.csv.gz")
    again = FoldTable.load(tmp_path / "folds.csv.gz")
    assert again.rows == made.rows
    assert again.results == made.results
    (first, _) = made.summary()
    assert first["rmse_sd"] == pytest.approx(np.std([one["rmse"] for one in made.rows[:10]], ddof=1), abs=1e-6)
    assert first["folds_run"] == 10


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_labels_do_not_touch_and_keep_their_order(places: list[float]) -> None:
    moved = spread_apart(places, 0.1)
    order = np.argsort(places, kind="stable")
    assert (np.diff(np.array(moved)[order]) >= 0.1 - 1e-9).all()
    assert np.mean(moved) == pytest.approx(np.mean(places))


@pytest.fixture(scope="module")
def small_data() -> RatingData:
    scale = RatingScale.parse("1:5:1")
    world = make_world(scale, shape=WorldShape(60, 40, 700))
    users, items = (column_of(ids, "id").ids() for ids in (world.users, world.items))
    return rating_data("small", scale, users, items, world.ratings.astype(np.float64), sha256="0", synthetic=True)


def test_noise_follows_the_law_it_is_drawn_beside(small_data: RatingData) -> None:
    rows = noise_rows(small_data)
    for mechanism in ("laplace", "bounded-laplace"):
        for epsilon in ("1", "0.1"):
            chosen = [one for one in rows if (one["mechanism"], one["epsilon"]) == (mechanism, epsilon)]
            assert sum(one["derived"] for one in chosen) == pytest.approx(1)
            assert sum(one["drawn"] for one in chosen) == pytest.approx(1)
            assert min(chosen[0]["p_value"], chosen[0]["p_value_table"]) > 1e-4


def test_bytes_are_counted_both_ways(small_data: RatingData) -> None:
    rows = {one["method"]: one for one in communication_rows(small_data)}
    blp, pg_mf = rows["BLP-MoG-MF"], rows["PG-MF"]
    assert rows["tailored channel"]["bits_per_rating"] == 1
    assert blp["bits_per_rating"] == 6
    assert blp["bytes_one_report_compact"] < blp["bytes_one_report_json"]
    assert blp["bytes_up_per_user"] == pytest.approx(blp["bytes_per_rating_batched"] * 700 / 60, rel=0.01)
    assert pg_mf["bytes_down_per_iteration"] >= small_data.shape[1] * 3 * 4  # every item's factors, in single precision
    assert pg_mf["bytes_down_per_user"] == 11 * pg_mf["bytes_down_per_iteration"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Reproduction, Path]:
    """A short look at three tiny data sets that bear the names of the real ones."""
    data, folder = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("paper")
    for seed, (name, text) in enumerate(
        {"ml-100k": "1:5:1", "jester-1": "-10:10:0.25", "libimseti-top2000": "1:10:1"}.items()
    ):
        world = make_world(RatingScale.parse(text), shape=WorldShape(40, 30, 350), seed=seed)
        columns = {"user": world.users, "item": world.items, "rating": world.ratings, "part": np.ones(350, np.int8)}
        write_columns(data / f"{name}.parquet", columns, {})
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TACIT_DATA", str(data))
        store = ResultStore(tmp_path_factory.mktemp("store"))
        made = compute(TINY, tuple(EXPERIMENTS), store, jobs=2, say=lambda _: None)
        watched: list[object] = []
        again = compute(TINY, tuple(EXPERIMENTS), store, jobs=1, say=lambda _: None, watch=watched.append)
    assert not watched
    assert again.folds.rows == made.folds.rows
    made.save(folder)
    made = Reproduction.load(folder)
    save_report(made, folder)
    return made, folder


def test_the_whole_report_is_made(whole: tuple[Reproduction, Path]) -> None:
    _, folder = whole
    page = (folder / "report.html").read_text()
    for name in EXPERIMENTS:
        assert f'<h2 id="{name}">' in page
    assert page.count("<svg") == 5
    for name in ("noise", "mechanisms", "models", "pg-mf", "isgd", "isgd-rmse"):
        assert (folder / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    for name in ("rows.csv", "folds.csv.gz", "noise.csv", "communication.csv", "datasets.csv", "verdicts.md"):
        assert (folder / name).stat().st_size > 0


def test_the_report_fetches_nothing(whole: tuple[Reproduction, Path]) -> None:
    page = (whole[1] / "report.html").read_text()
    assert not re.search(r"""(src|href)\s*=\s*["'](?!#)|url\((?!#)|@import|<script|<link|<iframe""", page)


def test_drawing_again_changes_no_byte(whole: tuple[Reproduction, Path], tmp_path: Path) -> None:
    _, folder = whole
    save_report(Reproduction.load(folder), tmp_path)
    for name in ("report.html", "verdicts.md", "figures/isgd.svg", "figures/noise.svg", "figures/pg-mf.png"):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()


def test_verdicts_are_written_as_a_table(whole: tuple[Reproduction, Path]) -> None:
    made, _ = whole
    verdicts = judge(made.folds, made.noise, made.traffic)
    assert len(verdicts) == 16
    assert verdicts_text(verdicts).count("\n") == 2 + len(verdicts)
    assert {one.figure for one in verdicts} <= set(EXPERIMENTS)


def test_a_setting_is_chosen_by_the_measure_that_is_judged() -> None:
    one, three = (replace(BLP_MOG.published, rank=rank) for rank in (1, 3))
    rows = [
        row(BLP_MOG, options, "1", Place(0, fold), rmse=error, f_score=score)
        for options, error, score in ((one, 1.0, 0.2), (three, 1.1, 0.4))
        for fold in range(3)
    ]
    for measure, best in (("rmse", 1.0), ("f_score", 0.4)):
        found = point(FoldTable(rows), "ml-100k", BLP_MOG, RANKED, "1", measure=measure)
        assert found is not None
        assert found.mean(measure) == pytest.approx(best)


def test_folds_of_another_seed_have_no_say() -> None:
    one, three = (replace(BLP_MOG.published, rank=rank) for rank in (1, 3))
    rows = [
        row(BLP_MOG, options, "1", Place(seed, fold), rmse=error)
        for options, errors in ((one, (1.0, 9.0)), (three, (1.1, 1.1)))
        for seed, error in enumerate(errors)
        for fold in range(3)
    ]
    found = point(FoldTable(rows), "ml-100k", BLP_MOG, RANKED, "1", measure="rmse")
    assert found is not None
    assert {place.seed: result["rmse"] for place, result in found.results.items()} == {0: 1.0, 1: 1.1}


def test_growth_is_judged_for_every_private_method() -> None:
    falling = {("blp-mog", 1, "0.1"): 1.2, ("blp-mog", 1, "1"): 1.1, ("isgd", 1, "0.1"): 1.3, ("isgd", 1, "1"): 1.0}
    claim = "Accuracy grows with epsilon, for all private methods"
    assert {one.claim: one.words for one in judge(table(falling), [], [])}[claim] == HOLDS
    flat = falling | {("pg-mf", 1, "0.1"): 1.0, ("pg-mf", 1, "1"): 1.0}
    assert {one.claim: one.words for one in judge(table(flat), [], [])}[claim] == "holds only if PG-MF is left out"


def test_results_of_two_runs_are_not_mixed(whole: tuple[Reproduction, Path]) -> None:
    made, folder = whole
    part = replace(made, about=made.about | {"figures": ["noise"]})
    with pytest.raises(FileError, match="has results of more figures than noise; choose another"):
        part.save(folder)


@pytest.mark.parametrize("name", ["about.json", "folds.csv.gz", "noise.csv", "communication.csv", "datasets.csv"])
@pytest.mark.parametrize("content", [None, b"", b"{}", b"[]", b"1,2\n", b"\xff\xfe", b'{"plan": 1}'])
def test_damaged_results_are_refused(
    whole: tuple[Reproduction, Path], tmp_path: Path, name: str, content: bytes | None
) -> None:
    copy = shutil.copytree(whole[1], tmp_path / "copy", ignore=shutil.ignore_patterns("figures"))
    if content is None:
        (copy / name).unlink()
    else:
        (copy / name).write_bytes(content)
    with pytest.raises(TacitError) as refused:
        Reproduction.load(copy)
    assert name in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_folder_that_cannot_be_written_to_is_found_before_computing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot write to the folder"):
        check_folder(tmp_path / "file", ["noise"])


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="cannot read"):
        Reproduction.load(tmp_path)


def test_the_verdicts_say_how_tacit_fares_against_the_rivals() -> None:
    rows = table({("blp-mog", 1, "1"): 1.2, ("pg-mf", 1, "1"): 1.0}).rows
    for method, error in ((TACIT, 1.1), (TACIT_DEVICE, 0.9)):
        rows += [row(method, method.published, "1", Place(0, fold), rmse=error + fold / 1000) for fold in range(10)]
    told = {one.claim: one.with_tacit for one in judge(FoldTable(rows), [], [])}
    found = told["BLP-MoG-MF has lower RMSE than PG-MF, epsilon 0.1 to 1.6"]
    assert "tacit, provider: MovieLens 100K: worse at every epsilon" in found
    assert "tacit, device: MovieLens 100K: better at every epsilon" in found
    assert all(not text for claim, text in told.items() if "PG-MF" not in claim)


def ten(method: Method, epsilon: str, **measures: float) -> list[dict[str, Any]]:
    return [
        row(
            method,
            method.published,
            epsilon,
            Place(0, fold),
            **{name: one + fold / 1e4 for name, one in measures.items()},
        )
        for fold in range(10)
    ]


def test_ideas_stand_below_each_other_with_their_controls() -> None:
    rows = [*ten(BLP_MOG, "1", rmse=1.2), *ten(TACIT, "1", rmse=1.0), *ten(TACIT_DEVICE, "1", rmse=0.9)]
    assert not list(idea_rows(FoldTable(rows[:20])))  # without devices there is nothing to tell apart
    found = list(idea_rows(FoldTable([*rows, *ten(TACIT_WITHOUT_REPORTS, "-", rmse=0.95)])))
    assert [line[0].split(":")[0] for line in found] == ["MovieLens 100K"] * 6
    at_one = {line[0]: line[1 + SHOWN.index("1")] for line in found}
    assert list(at_one.values()) == ["1.200", "1.000", "0.900", "-", "-", "0.950"]
    assert found[0][1:] == ["-", "-", "1.200", "-", "-"]
    assert found[-1][1:] == ["0.950"] * 5  # whatever the epsilon


def test_lists_are_compared_with_the_best_of_all_others() -> None:
    ours = [*ten(TACIT_TAILORED, "1", ndcg=0.93), *ten(TACIT_TAILORED, "3", ndcg=0.94)]
    others = [*ten(BLP_MOG, "1", ndcg=0.9), *ten(ISGD, "1", ndcg=0.91), *ten(ISGD, "3", ndcg=0.95)]
    assert not list(list_rows(FoldTable(ours)))
    by_ndcg, by_f = list_rows(FoldTable(ours + others + ten(TACIT_WITHOUT_REPORTS, "-", ndcg=0.92)))
    beside = ["-", "-", "0.930 / 0.910 ISGD", "-", "0.940 / 0.950 ISGD"]
    assert by_ndcg == ["MovieLens 100K: nDCG@10", *beside, "epsilon up to 1", "0.920"]
    assert by_f[-2:] == ["", "0.500"]  # all are equal


def test_the_fast_look_leaves_out_what_takes_long() -> None:
    def devices(plan: Plan) -> set[str]:
        return {job.source.place for job in jobs_of(plan, tuple(EXPERIMENTS)) if job.setting.at == DEVICE}

    assert devices(FULL) == {"ml-100k", "jester-1-part-1", "libimseti-top2000"}
    assert devices(FAST) == {"ml-100k", "libimseti-top2000"}
