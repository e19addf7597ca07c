"""Values by annotation, and what the decorator refuses."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import json
import pathlib
import uuid
from typing import Annotated, Any, Literal, NewType, Optional, TypedDict, Union

import msgspec
import pydantic
import pytest

import windlass_tasks as windlass
from windlass_tasks._values import ValueMismatch, parse, plain


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Inner:
    name: str
    tags: set[str] = dataclasses.field(default_factory=set)


@dataclasses.dataclass
class Outer:
    one: Inner
    many: list[Inner]
    by_name: dict[str, Inner]
    maybe: Optional[int] = None
    colour: Colour = Colour.RED
    at: dt.datetime | None = None


class Model(pydantic.BaseModel):
    name: str
    at: dt.datetime


class Struct(msgspec.Struct):
    name: str
    size: int = 1


class Typed(TypedDict):
    name: str
    inner: Inner


@dataclasses.dataclass
class Halves:
    of: Any

    def __post_init__(self) -> None:
        self.half = 1 / self.of


UserId = NewType("UserId", int)

VALUES: list[tuple[Any, Any]] = [
    (Any, {"a": [1, None, "x"]}),
    (int, 1),
    (float, 1.5),
    (bool, True),
    (str, "ü"),
    (type(None), None),
    (list[int], [1, 2]),
    (dict[str, float], {"a": 1.0}),
    (tuple[int, str], (1, "a")),
    (tuple[int, ...], (1, 2, 3)),
    (set[str], {"a", "b"}),
    (Optional[int], None),
    (Union[int, str], "a"),
    (Union[Inner, list[int]], [1]),
    (Literal["a", 1], 1),
    (Annotated[int, "more"], 3),
    (UserId, UserId(3)),
    (Colour, Colour.BLUE),
    (dt.datetime, dt.datetime(2030, 1, 2, 3, 4, 5, 6, tzinfo=dt.timezone.utc)),
    (dt.date, dt.date(2030, 1, 2)),
    (dt.timedelta, dt.timedelta(hours=1, microseconds=5)),
    (uuid.UUID, uuid.UUID(int=5)),
    (decimal.Decimal, decimal.Decimal("0.1")),
    (pathlib.Path, pathlib.Path("/a/b")),
    (bytes, b"\x00\xff"),
    (Inner, Inner("a", {"x"})),
    (Outer, Outer(Inner("a"), [Inner("b")], {"c": Inner("c")}, 3, Colour.BLUE, dt.datetime(2030, 1, 1))),
    (Model, Model(name="a", at=dt.datetime(2030, 1, 1, tzinfo=dt.timezone.utc))),
    (list[Model], [Model(name="a", at=dt.datetime(2030, 1, 1, tzinfo=dt.timezone.utc))]),
    (Struct, Struct("a", 3)),
    (Typed, {"name": "a", "inner": Inner("b")}),
]


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=[str(kind)[:40] for kind, _ in VALUES])
def test_a_value_comes_back_from_json(kind: Any, value: Any) -> None:
    text = json.dumps(plain(value), allow_nan=False)
    back = parse(kind, json.loads(text), "value")
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (int, "1", r"value: expected int, got '1'"),
        (int, True, r"value: expected int, got True"),
        (str, None, r"value: expected str, got None"),
        (float, "x", r"value: expected a number, got 'x'"),
        (list[int], [1, "a"], r"value\[1\]: expected int"),
        (dict[str, int], {"a": None}, r"value\.a: expected int"),
        (Inner, {}, r"value\.name: the field is missing"),
        (Inner, [1], r"value: expected an object"),
        (Outer, {"one": {"name": "a"}, "many": [{}], "by_name": {}}, r"value\.many\[0\]\.name: the field is missing"),
        (Optional[int], "a", r"value: expected int, got 'a'"),
        (Union[int, list[int]], "a", r"value: expected .*int.* or .*list.*, got 'a'"),
        (Literal["a", "b"], "c", r"value: expected 'a' or 'b'"),
        (Colour, "green", r"value: expected 'red' or 'blue'"),
        (dt.datetime, "soon", r"value: expected datetime"),
        (uuid.UUID, "x", r"value: expected UUID"),
        (tuple[int, str], [1], r"value: expected a list of 2"),
        (Model, {"name": 1}, r"(?s)value: .*name"),
        (Struct, {"name": 1}, r"value: Expected `str`, got `int`"),
        (float, 10**400, r"value: expected a number that a float can have, got 1000"),
        (Optional[float], -(10**400), r"value: expected a number that a float can have, got -1000"),
        (Union[float, str], 10**400, r"value: expected .*float.* or .*str.*, got 1000"),
        (dt.timedelta, 10**400, r"value: expected a number that a float can have, got 1000"),
        (dt.timedelta, 1e15, r"value: expected seconds of a timedelta, got 1000000000000000"),
        (dt.timedelta, float("inf"), r"value: expected seconds of a timedelta, got inf"),
        (set, [[1]], r"value: expected a list of values that a set can have, got \[\[1\]\]"),
        (frozenset[Any], [{}], r"value: expected a list of values that a set can have"),
        (list[set[Any]], [[1], [[1]]], r"value\[1\]: expected a list of values that a set can have"),
        (Colour, ["red"], r"value: expected 'red' or 'blue'"),
        (Halves, {"of": 0}, r"value: division by zero"),
        (Halves, {"of": None}, r"value: unsupported operand"),
        (Typed, {"name": "a"}, r"value\.inner: the field is missing"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_wrong_value_is_refused_with_its_place(kind: Any, value: Any, text: str) -> None:
    with pytest.raises(ValueMismatch, match=text):
        parse(kind, value, "value")


def test_unknown_fields_are_ignored() -> None:
    assert parse(Inner, {"name": "a", "newer": 1}, "value") == Inner("a")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (object(), "value: a value of <class 'object'> cannot be stored"),
        ({"a": [float("inf")]}, r"value\.a\[0\]: inf is not a number"),
        ({1: 2}, "value: the key 1 is not a text"),
        (Inner("a", {object()}), r"value\.tags\[0\]: a value of"),  # type: ignore[arg-type]
    ],
    ids=["class", "infinity", "key", "set"],
)
def test_what_json_does_not_have_is_refused_with_its_place(value: Any, text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        plain(value)


def test_the_decorator_says_what_is_wrong() -> None:
    app = windlass.App(ttl=15)

    @app.task("a")
    def first(job: windlass.Job[Inner, None]) -> None: ...

    assert (first.props, first.data, first.place) == (Inner, type(None), "process")
    with pytest.raises(ValueError, match="the kind a has two handlers"):
        app.task("a")(lambda job: None)
    with pytest.raises(TypeError, match="place='loop' is for async def"):

        @app.task("b", place="loop")
        def second(job: windlass.Job[Any, Any]) -> None: ...

    with pytest.raises(TypeError, match="annotate job as Job"):

        @app.task("c")  # type: ignore[arg-type]
        def third(job: int) -> None: ...

    with pytest.raises(TypeError, match="has to take one parameter"):

        @app.task("d")  # type: ignore[arg-type]
        def fourth(job: windlass.Job[Any, Any], more: int) -> None: ...

    with pytest.raises(ValueError, match="ttl: 5 is not between 15 and 300"):
        windlass.App(ttl=5)
    with pytest.raises(ValueError, match="the app has no handlers"):
        windlass.App().run()

    @app.task("many", slots=1000)
    async def many(job: windlass.Job[Any, Any]) -> None: ...

    with pytest.raises(ValueError, match="at most 1000"):
        app._share_slots()
