"""The indexes of selectors and labels give the same results as a full comparison."""

from __future__ import annotations

import random

from headgate.controllers.ownership.indexes import LabelIndex, SelectorIndex
from headgate.kube.labels import Operator, Requirement, Selector

KEYS = ("app", "tier")
VALUES = ("a", "b", "c")
OPERATORS: tuple[Operator, ...] = ("=", "in", "notin", "exists", "!")


def draw_selector(dice: random.Random) -> Selector:
    if dice.random() < 0.1:
        return Selector(nothing=True)
    requirements = []
    for key in dice.sample(KEYS, dice.randrange(3)):
        operator = dice.choice(OPERATORS)
        count = 0 if operator in ("exists", "!") else 1 if operator == "=" else dice.randint(1, 2)
        requirements.append(Requirement(key, operator, tuple(dice.sample(VALUES, count))))
    return Selector(tuple(requirements))


def draw_labels(dice: random.Random) -> dict[str, str]:
    return {key: dice.choice(VALUES) for key in dice.sample(KEYS, dice.randrange(3))}


def test_both_indexes_answer_as_trying_everything_would() -> None:
    dice = random.Random(5)
    selectors: dict[int, tuple[str, Selector]] = {}
    objects: dict[int, tuple[str, dict[str, str]]] = {}
    by_selector: SelectorIndex[int] = SelectorIndex()
    by_label: LabelIndex[int] = LabelIndex()
    for _ in range(3000):
        key, namespace = dice.randrange(12), dice.choice("xy")
        match dice.randrange(4):
            case 0:
                selectors[key] = namespace, draw_selector(dice)
                by_selector.put(key, *selectors[key])
            case 1:
                objects[key] = namespace, draw_labels(dice)
                by_label.put(key, *objects[key])
            case 2:
                selectors.pop(key, None)
                by_selector.drop(key)
            case 3:
                objects.pop(key, None)
                by_label.drop(key)
        labels, selector = draw_labels(dice), draw_selector(dice)
        meant = [key for key, (where, each) in selectors.items() if where == namespace and each.matches(labels)]
        assert sorted(by_selector.matching(namespace, labels)) == sorted(meant)
        found = [key for key, (where, each) in objects.items() if where == namespace and selector.matches(each)]
        assert sorted(by_label.matching(namespace, selector)) == sorted(found)
