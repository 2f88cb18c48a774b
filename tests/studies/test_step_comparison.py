"""The step at which a compiled run leaves the eager one is named; differences that rounding makes are not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tcexplore import events as ev
from tcexplore.studies.step_comparison import compare_scripts, compare_steps, step_fields, step_rows, steps_text

NAMES = ("fc.weight", "fc.bias")
NOISE = 1e-7


def steps(*differences: Sequence[float], names: tuple[str, ...] = NAMES) -> list[ev.StepParameters]:
    """Return steps after which each parameter is off by this, relative to its norm."""
    return [
        ev.StepParameters(
            step=number + 1, names=names, sketches=tuple((3.0 + 5 * difference, 4.0) for difference in step)
        )
        for number, step in enumerate(differences)
    ]


def run(count: int, difference: Callable[[int, int], float]) -> list[ev.StepParameters]:
    return steps(*([difference(step, place) for place in range(2)] for step in range(1, count + 1)))


EAGER = run(8, lambda *_: 0.0)
PERTURBED = run(8, lambda step, _: NOISE * step)


def test_a_run_within_rounding_does_not_leave():
    compared = compare_steps(run(8, lambda step, _: 3 * NOISE * step), EAGER, [PERTURBED])
    assert compared is not None
    assert compared.first is None
    assert "After 8 steps, no parameter of 2 is further" in steps_text(compared)


def test_the_first_step_and_parameter_beyond_rounding_are_named():
    compiled = run(8, lambda step, place: 1e-3 if step >= 5 and place else NOISE * step)
    compared = compare_steps(compiled, EAGER, [PERTURBED])
    assert compared is not None
    assert compared.first is not None
    assert (compared.first.step, compared.first.name) == (5, "fc.bias")
    assert "After step 5, fc.bias has left the eager run: 1.0e-03 off" in steps_text(compared)
    fields = step_fields(compared)
    assert fields is not None
    assert fields["first"]["parameter"] == "fc.bias"
    shown = [row.text for row in step_rows(compared, 100)]
    assert any("5  fc.bias" in text for text in shown)


def test_a_script_whose_rounding_errors_explode_is_not_accused():
    explodes = run(8, lambda step, _: 3 * NOISE * 8**step)
    compared = compare_steps(explodes, EAGER, [run(8, lambda step, _: NOISE * 8**step)])
    assert compared is not None
    assert compared.first is None


def test_a_parameter_that_rounding_happens_to_spare_has_the_usual_share():
    lucky = run(8, lambda step, place: 0.0 if place else NOISE * step)
    compared = compare_steps(run(8, lambda step, _: NOISE * step), EAGER, [lucky])
    assert compared is not None
    assert compared.first is None


def test_values_that_are_not_finite_leave():
    compiled = [*EAGER[:3], *steps((float("inf"), 0.0))]
    compared = compare_steps(compiled, EAGER[:4], [PERTURBED[:4]])
    assert compared is not None
    assert compared.first is not None
    assert step_fields(compared)["first"]["difference"] is None  # type: ignore[index]


def test_runs_of_other_parameters_are_not_compared():
    assert compare_steps(EAGER, steps((0.0,), names=("other",)), [PERTURBED]) is None
    assert compare_steps([], EAGER, [PERTURBED]) is None


def script(run: Sequence[ev.StepParameters], loss: float = 0.0, random: str = "a") -> list[ev.StepParameters]:
    """Return steps with a loss that is off by this, relative to 2."""
    return [replace(step, losses=(2.0 * (1 + loss),), random=random, seconds=0.1 * step.step) for step in run]


def test_steps_of_a_changed_script_are_equal_bit_by_bit_or_up_to_rounding():
    same = compare_scripts(script(EAGER), [replace(step, seconds=9.0) for step in script(EAGER)], ())
    assert same.text == "8 steps of both scripts from one seed: losses, parameters and random numbers bit-identical"
    assert same.time == "Median step 550 ms before, 9.00 s now, in separate runs of few steps: not comparable"
    rounded = compare_scripts(script(EAGER), script(PERTURBED, 1e-7), PERTURBED)
    assert (rounded.objection, rounded.judged) == ("", True)
    assert "losses equal within 1.0e-07, parameters equal up to rounding, random numbers equal" in rounded.text
    # Without a run with rounding noise nobody knows.
    assert "not compared with rounding" in compare_scripts(script(EAGER), script(PERTURBED, 1e-7), ()).text


def test_a_changed_script_with_other_steps_is_refused():
    far = run(8, lambda step, place: 1e-3 if step >= 5 and place else NOISE * step)
    assert compare_scripts(script(EAGER), script(far), PERTURBED).objection.startswith(
        "after step 5, fc.bias is 1.0e-03"
    )
    assert "other random numbers" in compare_scripts(script(EAGER), script(EAGER, random="b"), PERTURBED).objection
    fewer = [replace(step, losses=()) for step in EAGER]
    assert "number of backwards" in compare_scripts(script(EAGER, random=""), fewer, PERTURBED).objection
    assert "other parameters" in compare_scripts(script(EAGER), script(steps(*[[0.0]] * 8, names=("x",))), ()).objection
    assert "no step was seen" in compare_scripts((), script(EAGER), ()).text


def test_several_parameters_that_leave_at_once_have_left():
    compared = compare_steps(run(8, lambda *_: 1e-3), EAGER, [PERTURBED])
    assert compared is not None
    assert " and 1 other have left the eager run" in steps_text(compared)
