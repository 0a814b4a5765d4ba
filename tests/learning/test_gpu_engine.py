"""The GPU engine against the local one: sweeps, whole fits, streaming and memory."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tacit.errors import EngineError, ModelError
from tacit.evaluation.world import WorldShape, make_world
from tacit.learning.engine import PosteriorProblem
from tacit.learning.factors import FactorPair, Ridge, random_pair
from tacit.learning.fit import fit_with
from tacit.learning.kernels import padded
from tacit.learning.local_engine import LocalEngine
from tacit.learning.matrix import ReportMatrix
from tacit.learning.mixture import NoiseMixture
from tacit.learning.options import ChannelMfOptions, MfAlsOptions, MogMfOptions, OffsetsOptions, Options
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale

if importlib.util.find_spec("torch") is None and not os.environ.get("TACIT_NO_SKIPS"):
    pytest.skip("PyTorch is not installed; install tacit[gpu]", allow_module_level=True)

import torch

from tacit.learning.gpu import gpu_engine, gpu_found, plain
from tacit.learning.gpu.device import chosen_device, computing, memory_limit
from tacit.learning.gpu.engine import GpuEngine
from tacit.learning.gpu.factors import GpuFactors
from tacit.learning.gpu.plan import Demand, foresee
from tacit.learning.gpu.reports import DeviceReports
from tacit.learning.gpu.sums import row_sums
from tacit.learning.gpu.sweep import Pull
from tacit.learning.gpu.sweeper import GpuSweeper

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tacit.learning.gpu.sweep import HalfSweep
    from tacit.learning.gpu.trial import Kind
    from tacit.learning.model import Model

DEVICE = torch.device(os.environ.get("TACIT_GPU_DEVICE", "cpu"))  # tests are for the processor unless it says else
AMPLE = 1 << 32
STARS = RatingScale.parse("1:5:1")
MIXTURE = NoiseMixture(np.array([0.3, 0.6, 0.1, 0.0]), np.array([0.4, 1.5, 8.0, 2.0]))


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def plain_numbers() -> ReportMatrix:
    """Ratings of a small world; three people and two items have none."""
    world = make_world(STARS, shape=WorldShape(300, 150, 9_000), seed=1)
    people, things = np.arange(303), np.arange(152)
    return ReportMatrix.of_values(
        world.users, world.items, world.ratings, STARS, catalogue_users=people, catalogue_items=things
    )


@pytest.fixture(scope="module")
def symbols() -> ReportMatrix:
    """Reports on the same kind of world, under two policies."""
    world = make_world(STARS, shape=WorldShape(300, 150, 9_000), seed=2)
    rng, parts = np.random.default_rng(3), []
    for epsilon, here in (("2", world.users % 2 == 0), ("4", world.users % 2 == 1)):
        policy = Policy.make("bounded-laplace", STARS, epsilon)
        words = rng.integers(0, 2**64, here.sum(), dtype=np.uint64, endpoint=False)
        said = policy.channel.draw(STARS.ranks_of(world.ratings[here]), words)
        parts.append((world.users[here], world.items[here], said, policy))
    return ReportMatrix.of_parts(parts)


@pytest.fixture(params=["plain_numbers", "symbols"])
def matrix(request: pytest.FixtureRequest) -> ReportMatrix:
    found: ReportMatrix = request.getfixturevalue(request.param)
    return found


def on_device(matrix: ReportMatrix, limit: int = AMPLE) -> GpuEngine:
    return GpuEngine(matrix, DEVICE, limit)


@pytest.mark.parametrize("ridge", [Ridge(0.0), Ridge(0.5, 0.2)])
@pytest.mark.parametrize("offsets", [False, True])
def test_sweeps_are_those_of_the_local_engine(matrix: ReportMatrix, offsets: bool, ridge: Ridge) -> None:
    mean = matrix.mean if offsets else 0.0
    pairs = [random_pair(matrix, 6, offsets=offsets, rng=np.random.default_rng(4)) for _ in range(2)]
    local, ours = (
        LocalEngine(matrix, 1).sweeper(pairs[0], mean, ridge),
        on_device(matrix).sweeper(pairs[1], mean, ridge),
    )
    assert ours.users(MIXTURE) == pytest.approx(local.users(MIXTURE), rel=1e-4)
    # Rows with hardly more reports than unknowns are determined badly; their products are not.
    products, wanted = (pair.users @ pair.items.T for pair in (ours.factors.home(), pairs[0]))
    assert np.abs(products - wanted).max() <= 2e-3 * np.abs(wanted).max()
    assert np.median(np.abs(ours.factors.home().users - pairs[0].users)) <= 1e-6
    for _ in range(3):
        expected, found = local.items(MIXTURE), ours.items(MIXTURE)
        assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-6)
        np.testing.assert_allclose(found.responsibility, expected.responsibility, rtol=1e-5, atol=1e-9)
        np.testing.assert_allclose(found.square, expected.square, rtol=1e-4, atol=1e-9)
        assert ours.users(MIXTURE) == pytest.approx(local.users(MIXTURE), rel=1e-2)
    assert ours.penalty() == pytest.approx(local.penalty(), rel=1e-5)


def test_factors_come_home_and_are_taken_back(plain_numbers: ReportMatrix) -> None:
    pair = random_pair(plain_numbers, 3, offsets=True, rng=np.random.default_rng(0))
    start = FactorPair(pair.users.copy(), pair.items.copy(), 3, offsets=True)
    sweeper = on_device(plain_numbers).sweeper(pair, plain_numbers.mean, Ridge(0.1, 0.1))
    sweeper.users(MIXTURE)
    moved = sweeper.factors.home()
    assert (moved.items == start.items).all()
    assert (moved.users != start.users).any()
    sweeper.factors.take(start)
    assert (sweeper.factors.home().users == start.users).all()


@pytest.mark.parametrize("by_item", [False, True])
@pytest.mark.parametrize("rank", [0, 5])
def test_posteriors_are_those_of_the_local_engine(matrix: ReportMatrix, rank: int, by_item: bool) -> None:
    rng, held = np.random.default_rng(rank), 2
    free, (own, other) = rank + 3, matrix.shape[::-1] if by_item else matrix.shape
    codes = matrix.symbol_values
    weights = rng.uniform(0.1, 3, 1 if codes is None else len(codes)).astype(np.float32)
    start = PosteriorProblem(
        fixed=padded(rng.standard_normal((other, free + held))),
        solved=padded(rng.standard_normal((own, free + held))),
        variances=np.ones((own, free), dtype=np.float32),
        coordinates=free + held,
        precision=np.geomspace(1e-6, 10, free).astype(np.float32),
        centres=rng.standard_normal((own, free)).astype(np.float32),
        fixed_variances=rng.uniform(0, 1, (other, rank)).astype(np.float32),
    )
    found, expected = (replace(start, solved=padded(start.solved), variances=start.variances.copy()) for _ in range(2))
    squares = [
        engine.posterior_sweeper(codes, weights, 3.0).sweep(problem, by_item=by_item)
        for engine, problem in ((on_device(matrix), found), (LocalEngine(matrix, 1), expected))
    ]
    assert squares[0] == pytest.approx(squares[1], rel=1e-5)
    scale = 1 + np.abs(expected.solved).max(axis=1, keepdims=True)
    np.testing.assert_allclose(found.solved / scale, expected.solved / scale, rtol=0, atol=3e-4)
    np.testing.assert_allclose(found.variances, expected.variances, rtol=1e-3)


@pytest.mark.parametrize("by_item", [False, True])
def test_sums_of_rows_are_those_of_the_local_engine(matrix: ReportMatrix, by_item: bool) -> None:
    dense = np.random.default_rng(0).standard_normal((matrix.shape[1 - by_item], 11)).astype(np.float32)
    found, expected = (
        engine.row_sums(dense, by_item=by_item) for engine in (on_device(matrix), LocalEngine(matrix, 1))
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert found.dtype == np.float32


def assert_same_fit(ours: Model, local: Model, users: Any, items: Any, ratings: Any) -> None:
    assert len(ours.trace.iterations) == len(local.trace.iterations)
    for found, expected in zip(ours.trace.iterations, local.trace.iterations, strict=True):
        if expected.likelihood is None:
            assert found.objective == pytest.approx(expected.objective, rel=1e-5)
        else:
            assert found.likelihood == pytest.approx(expected.likelihood, rel=1e-5)
    errors = [float(np.sqrt(np.mean((model.predict(users, items).ratings - ratings) ** 2))) for model in (ours, local)]
    assert errors[0] == pytest.approx(errors[1], abs=1e-4)
    assert ours.provenance.versions["torch"] == torch.__version__


MODELS = [
    MogMfOptions(rank=3, iterations=25),
    MogMfOptions(rank=6, components=2, regularisation=1.0, iterations=15),
    MfAlsOptions(rank=8, iterations=30),
    MfAlsOptions(rank=5, offsets=False, iterations=30),
    ChannelMfOptions(rank=4, iterations=8),
    OffsetsOptions(),
]


@pytest.mark.parametrize("options", MODELS, ids=lambda options: f"{options.model}-{getattr(options, 'rank', 0)}")
def test_whole_fits_on_a_world_are_those_of_the_local_engine(matrix: ReportMatrix, options: Options) -> None:
    ours, local = (
        fit_with(engine, options, np.random.default_rng(5)) for engine in (on_device(matrix), LocalEngine(matrix, 1))
    )
    world = make_world(STARS, shape=WorldShape(300, 150, 9_000), seed=1)
    assert_same_fit(ours, local, world.users, world.items, world.ratings)


def swept(matrix: ReportMatrix, reports: DeviceReports, half_sweep: HalfSweep = plain.half_sweep) -> tuple[Any, ...]:
    factors = GpuFactors.of(random_pair(matrix, 4, offsets=True, rng=np.random.default_rng(0)), DEVICE)
    values = matrix.symbol_values
    table = None if values is None else torch.tensor(values - np.float32(matrix.mean), device=DEVICE)
    pull = Pull.of([0.0] * 5, DEVICE)
    sweeper = GpuSweeper(reports, factors, table, matrix.mean, Ridge(0.0), pull, half_sweep, memory=1 << 25)
    changes = [sweeper.users(MIXTURE)]
    sums = sweeper.items(MIXTURE)
    changes.append(sweeper.users(MIXTURE))
    home, dense = factors.home(), np.ones((matrix.shape[1], 3), dtype=np.float32)
    summed = row_sums(reports, dense, by_item=False, memory=1 << 25)
    return home.users, home.items, changes, sums.log_likelihood, sums.square, summed


def test_streamed_reports_give_the_very_numbers_of_resident_ones(matrix: ReportMatrix) -> None:
    pins = DEVICE.type == "cuda"
    resident, streamed = (DeviceReports(matrix, DEVICE, most=700, resident=stay, pins=pins) for stay in (True, False))
    assert len(list(streamed.rows(by_item=True))) > 10
    for expected, found in zip(swept(matrix, resident), swept(matrix, streamed), strict=True):
        assert np.array_equal(expected, found)


@pytest.mark.filterwarnings("ignore:(overflow|divide|invalid):RuntimeWarning")  # of rows that are singular
def test_fused_kernels_sweep_streamed_reports_as_resident_ones_and_as_the_local_engine() -> None:
    if importlib.util.find_spec("triton") is None and not os.environ.get("TACIT_NO_SKIPS"):
        pytest.skip("Triton is not installed; install tacit[engines]")
    if DEVICE.type == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are imported
    fused = importlib.import_module("tacit.learning.gpu.fused")
    world = make_world(STARS, shape=WorldShape(20, 12, 96), seed=3)
    matrix = ReportMatrix.of_values(world.users, world.items, world.ratings, STARS)
    pins = DEVICE.type == "cuda"
    resident, streamed = (DeviceReports(matrix, DEVICE, most=40, resident=stay, pins=pins) for stay in (True, False))
    assert len(list(streamed.rows(by_item=True))) > 2
    users, items, *_ = found = swept(matrix, resident, fused.half_sweep)
    for expected, other in zip(found, swept(matrix, streamed, fused.half_sweep), strict=True):
        assert np.array_equal(expected, other)
    pair = random_pair(matrix, 4, offsets=True, rng=np.random.default_rng(0))
    local = LocalEngine(matrix, 1).sweeper(pair, matrix.mean, Ridge(0.0))
    local.users(MIXTURE)
    assert found[3] == pytest.approx(local.items(MIXTURE).log_likelihood, rel=1e-5)
    local.users(MIXTURE)
    products, wanted = users @ items.T, pair.users @ pair.items.T
    assert np.abs(products - wanted).max() <= 2e-3 * np.abs(wanted).max()


def test_a_fit_in_little_memory_is_streamed_and_the_same(symbols: ReportMatrix) -> None:
    options = MogMfOptions(rank=3, iterations=5)
    ample, tight = on_device(symbols), on_device(symbols, 170_000)
    fits = [fit_with(engine, options, np.random.default_rng(5)) for engine in (ample, tight)]
    assert ample.plan(3).resident
    assert not tight.plan(3).resident
    assert tight._reports is not None
    assert len(list(tight._reports.rows(by_item=False))) > 2
    assert fits[1].trace.iterations[-1].objective == pytest.approx(fits[0].trace.iterations[-1].objective, rel=1e-6)


def test_a_plan_keeps_within_its_limit_and_says_what_it_is(symbols: ReportMatrix) -> None:
    seen = set()
    for limit in np.geomspace(1.6e5, 1e9, 60).astype(int).tolist():
        plan = foresee(symbols, Demand(3, 1, 1 << 25), "this one", limit)
        assert plan.need <= limit
        assert len(plan.describe().splitlines()) == 1
        assert "this one" in plan.describe()
        seen.add((plan.resident, plan.most))
    assert len(seen) > 2
    assert "stay there" in plan.describe()


def test_reports_stay_where_there_is_room_for_them_beside_less_scratch_memory(symbols: ReportMatrix) -> None:
    demand = Demand(34, 1, 1 << 31)
    ample = foresee(symbols, demand, "this one", 1 << 34)
    for scratch in (1 << 29, 1 << 28, 1 << 25):
        plan = foresee(symbols, demand, "this one", int((ample.need - ample.scratch + scratch) / 0.95) + 1)
        assert (plan.resident, plan.scratch) == (True, scratch)


def test_blocks_stay_large_where_it_is_rows_that_take_the_room() -> None:
    people = 400_000
    users = np.repeat(np.arange(people), 5)
    items = (np.arange(5 * people) * 7919) % 50_000
    matrix = ReportMatrix.of_values(users, items, np.ones(len(users)), STARS)
    ample = foresee(matrix, Demand(62, 1, 1 << 27), "this one", 1 << 34)
    tight = foresee(matrix, Demand(62, 1, 1 << 27), "this one", int((ample.need - ample.reports) * 0.8))
    assert not tight.resident
    assert tight.most >= 1 << 16
    assert tight.scratch < ample.scratch


def test_a_plan_has_room_for_the_longest_row_and_says_what_is_pinned() -> None:
    people = 600_000
    users, items = np.arange(people + 3), np.zeros(people + 3, dtype=np.int64)
    items[people:], users[people:] = [1, 2, 3], [0, 1, 2]
    matrix = ReportMatrix.of_values(users % people, items, np.ones(len(users)), STARS)
    plan = foresee(matrix, Demand(250, 1, 1 << 20), "this one", 1 << 34)
    assert plan.scratch >= 256 * 8 * 256 * 256  # matrices of 256 segments in doubles
    assert plan.resident
    assert "own memory" not in plan.describe()
    streamed = foresee(matrix, Demand(8, 1, 1 << 20, pinnable=1 << 30), "this one", 95 << 20)
    assert streamed.pins
    assert not streamed.resident
    assert streamed.pinned > 2 * 8 * people
    assert "streamed there" in streamed.describe()
    assert f"a copy of {streamed.pinned / (1 << 20):.1f} MiB in this machine's own memory" in streamed.describe()
    slow = foresee(matrix, Demand(8, 1, 1 << 20, pinnable=1 << 20), "this one", 95 << 20)
    assert (slow.resident, slow.pins) == (False, False)
    assert "at a time" in slow.describe()
    assert "slowly: of this machine's own memory, 1.0 MiB may be used, not " in slow.describe()


def test_too_little_memory_is_refused_in_a_line_with_need_limit_and_remedy(
    plain_numbers: ReportMatrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TACIT_GPU_DEVICE", "cpu")
    monkeypatch.setenv("TACIT_GPU_MEMORY", "100000")
    with pytest.raises(
        EngineError, match=r"needs at least .* MiB on .*, and 0\.1 MiB may be used; lower the rank"
    ) as error:
        fit_with(gpu_engine(plain_numbers), MogMfOptions(rank=200), np.random.default_rng(0))
    assert len(str(error.value).splitlines()) == 1


def test_the_layout_grows_tighter_and_never_back(plain_numbers: ReportMatrix) -> None:
    engine = on_device(plain_numbers, 320_000)
    first, _ = engine.laid_out(2)
    assert engine.laid_out(2)[0] is first
    second, _ = engine.laid_out(20)
    assert (first.resident, second.resident) == (False, False)
    assert second.most < first.most
    assert engine.laid_out(2)[0] is second


@pytest.mark.parametrize("options", [*MODELS, ChannelMfOptions(pattern=False, rank=20)], ids=lambda each: each.model)
def test_a_fit_takes_no_wider_rows_than_was_foreseen(plain_numbers: ReportMatrix, options: Options) -> None:
    engine = on_device(plain_numbers)
    engine.prepare(options)
    foreseen = engine._asked
    fit_with(engine, options, np.random.default_rng(0))
    assert engine._asked == foreseen


@pytest.mark.parametrize("name", ["cuda:0:1", "tpu", "mps", "cuda:-1", "", "CUDA", "cpu\nx"])
def test_a_device_that_is_not_there_is_refused_in_a_line(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("TACIT_GPU_DEVICE", name)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(EngineError, match="TACIT_GPU_DEVICE") as error:
        chosen_device()
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError(),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be reported elsewhere"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("Triton Error [CUDA]: out of memory"),
    ],
    ids=str,
)
def test_a_device_that_runs_out_of_memory_says_so_in_a_line(error: Exception) -> None:
    with pytest.raises(EngineError, match="lower TACIT_GPU_MEMORY") as raised, computing(DEVICE):
        raise error
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "said",
    [
        "CUDA error: unspecified launch failure",
        "cusolver error: CUSOLVER_STATUS_EXECUTION_FAILED, when calling",
        "Triton Error [CUDA]: uncorrectable ECC error encountered",
    ],
)
def test_a_device_that_fails_says_so_in_a_line(said: str) -> None:
    with pytest.raises(EngineError, match="failed in the middle of a fit") as raised, computing(DEVICE):
        raise RuntimeError(f"{said}\nCompile with TORCH_USE_CUDA_DSA")
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_mistake_of_the_program_is_no_fault_of_the_device() -> None:
    with pytest.raises(RuntimeError, match="mat1 and mat2"), computing(DEVICE):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")


def test_what_triton_cannot_do_is_heard_by_a_trial() -> None:
    with pytest.raises(RuntimeError, match="Triton Error"), computing(DEVICE, on_trial=True):
        raise RuntimeError("Triton Error [CUDA]: device kernel image is invalid")


def test_kernels_are_chosen_for_the_sweeps_that_will_be(plain_numbers: ReportMatrix) -> None:
    kinds = []

    def choose(_: torch.device, kind: Kind) -> HalfSweep:
        kinds.append((kind.coordinates, kind.components))
        return plain.half_sweep

    fit_with(
        GpuEngine(plain_numbers, DEVICE, AMPLE, choose), MogMfOptions(rank=3, iterations=1), np.random.default_rng(1)
    )
    assert set(kinds) == {(2, 1), (3, 4)}
    assert kinds[-1] == (3, 4)  # offsets, which answer for strangers, are found before the long part


def test_a_checkpoint_goes_on_with_the_same_kernel_only(plain_numbers: ReportMatrix, tmp_path: Path) -> None:
    def fit(engine: GpuEngine, iterations: int) -> Model:
        options = MogMfOptions(rank=3, iterations=iterations, tolerance=0.0)
        return fit_with(engine, options, np.random.default_rng(1), checkpoint=tmp_path)

    def another(*given: Any) -> Any:
        return plain.half_sweep(*given)

    another.__module__ = "tacit.learning.gpu.another"
    engine = on_device(plain_numbers)
    fit(engine, 2)
    assert len(fit(engine, 3).trace.iterations) == 3  # by the same engine, and by one of its kind
    went_on = fit(on_device(plain_numbers), 4)
    assert len(went_on.trace.iterations) == 4
    assert went_on.provenance.versions["kernel"] == "gpu plain"
    other = GpuEngine(plain_numbers, DEVICE, AMPLE, lambda *_: another)
    with pytest.raises(ModelError, match="another fit"):
        fit(other, 5)


def test_a_device_beyond_the_last_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_GPU_DEVICE", "cuda:3")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(EngineError, match="there are 2 devices; set it to cuda:1"):
        chosen_device()


def test_a_device_that_does_not_compute_is_refused_in_a_line(
    plain_numbers: ReportMatrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("CUDA error: no kernel image is available for execution\nCompile with ...")

    monkeypatch.delenv("TACIT_GPU_DEVICE", raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch, "zeros", fail)
    found, why = gpu_found()
    assert not found
    assert why.startswith("cuda is there, but PyTorch cannot compute on it (CUDA error: no kernel image")
    with pytest.raises(EngineError, match=r"is available for execution\); mend that, or use the local engine$"):
        gpu_engine(plain_numbers)


@pytest.mark.parametrize("size", ["0", "-1", "8GB", "1e9", " 5", "9" * 16])
def test_a_memory_limit_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, size: str) -> None:
    monkeypatch.setenv("TACIT_GPU_MEMORY", size)
    with pytest.raises(EngineError, match="TACIT_GPU_MEMORY is"):
        memory_limit(DEVICE)


def exact_products() -> bool:
    """Whether factors too fine for shortened numbers make a difference in products."""
    fine = torch.full((64, 64), 1 + 2.0**-20)
    return bool(((fine @ torch.eye(64)) == fine).all())


@pytest.mark.parametrize("way", ["old", "new"])
def test_products_stay_in_single_precision_whatever_is_set_outside(way: str) -> None:
    matmuls = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = [each.fp32_precision for each in matmuls]
    try:
        if way == "old":
            torch.set_float32_matmul_precision("medium")
        else:
            matmuls[0].fp32_precision, matmuls[1].fp32_precision = "tf32", "bf16"
        shortened = [each.fp32_precision for each in matmuls]
        assert shortened == ["tf32", "bf16"]
        with computing(DEVICE):
            assert [each.fp32_precision for each in matmuls] == ["ieee", "ieee"]
            assert exact_products()
        assert [each.fp32_precision for each in matmuls] == shortened
        with pytest.raises(ZeroDivisionError), computing(DEVICE):
            raise ZeroDivisionError
        assert [each.fp32_precision for each in matmuls] == shortened
    finally:
        for each, precision in zip(matmuls, before, strict=True):
            each.fp32_precision = precision


def test_without_pytorch_the_remedy_is_named(plain_numbers: ReportMatrix, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("tacit.learning.gpu.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(EngineError, match=r"not installed; install tacit\[gpu\]"):
        gpu_engine(plain_numbers)


def test_the_engine_is_made_for_the_device_that_is_named(
    plain_numbers: ReportMatrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TACIT_GPU_DEVICE", "cpu")
    monkeypatch.setenv("TACIT_GPU_MEMORY", "123456789")
    engine = gpu_engine(plain_numbers)
    assert (engine.name, engine.device, engine.limit) == ("gpu", torch.device("cpu"), 123_456_789)
    assert engine.versions()["kernel"] == "gpu none"
    model = fit_with(engine, OffsetsOptions(), np.random.default_rng(0))
    assert model.provenance.versions["kernel"] == "gpu plain"
    assert np.array_equal(engine.rated().columns, plain_numbers.by_user.columns)


def test_pytorch_is_loaded_only_when_asked_for() -> None:
    code = "import sys, tacit.learning.fit, tacit.learning.gpu; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
