"""Sets of completion indexes as ranges, against plain sets of numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.controllers.jobs.indexes import CompletionIndexes
from headgate.controllers.jobs.policies import met_success_policy

COMPLETIONS = 24
sets = st.sets(st.integers(0, COMPLETIONS - 1))


def spelled(numbers: set[int]) -> str:
    """As Kubernetes writes it, found by walking: runs of three and more as a range."""
    parts: list[str] = []
    for first in sorted(each for each in numbers if each - 1 not in numbers):
        last = first
        while last + 1 in numbers:
            last += 1
        parts += [f"{first}-{last}"] if last - first >= 2 else [str(each) for each in range(first, last + 1)]
    return ",".join(parts)


@given(sets)
def test_it_is_written_and_read_again(numbers: set[int]) -> None:
    indexes = CompletionIndexes.of(numbers)
    assert str(indexes) == spelled(numbers)
    assert CompletionIndexes.parse(str(indexes), COMPLETIONS) == indexes
    assert len(indexes) == len(numbers)
    assert {each for each in range(COMPLETIONS + 2) if each in indexes} == numbers


@given(sets, st.integers(0, COMPLETIONS))
def test_what_is_read_is_below_the_number_of_completions(numbers: set[int], completions: int) -> None:
    assert CompletionIndexes.parse(spelled(numbers), completions) == CompletionIndexes.of(
        each for each in numbers if each < completions
    )


@given(sets, sets)
def test_two_sets_together_and_in_common(one: set[int], other: set[int]) -> None:
    assert CompletionIndexes.of(one) | CompletionIndexes.of(other) == CompletionIndexes.of(one | other)
    assert CompletionIndexes.of(one).common(CompletionIndexes.of(other)) == len(one & other)


@given(sets, st.integers(0, COMPLETIONS + 2), st.integers(0, COMPLETIONS))
def test_the_first_that_are_absent(numbers: set[int], count: int, completions: int) -> None:
    expected = [each for each in range(completions) if each not in numbers][:count]
    assert CompletionIndexes.of(numbers).absent(count, completions) == expected


@given(st.text(alphabet="0123456789,-+ x", max_size=20))
def test_what_cannot_be_read_is_passed_over(text: str) -> None:
    indexes = CompletionIndexes.parse(text, COMPLETIONS)
    assert CompletionIndexes.parse(str(indexes), COMPLETIONS) == indexes


@given(sets, sets, st.none() | st.integers(1, COMPLETIONS))
def test_a_rule_of_success(wanted: set[int], succeeded: set[int], needed: int | None) -> None:
    rule = {"succeededIndexes": spelled(wanted), **({} if needed is None else {"succeededCount": needed})}
    there = len(wanted & succeeded)
    expected = bool(wanted) and bool(succeeded) and (wanted <= succeeded or (needed is not None and there >= needed))
    assert (met_success_policy([rule], COMPLETIONS, CompletionIndexes.of(succeeded)) is not None) == expected
