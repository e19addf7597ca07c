"""Values by annotation, and what the decorator refuses."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import json
import pathlib
import uuid
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, NewType, Optional, TypedDict, TypeVar, Union

import msgspec
import pydantic
import pytest
from typing_extensions import TypeAliasType

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


class Point(NamedTuple):
    x: int
    y: float = 0.5
    name: str | None = None


UserId = NewType("UserId", int)
T = TypeVar("T")
S = TypeVar("S")
Sizes = TypeAliasType("Sizes", dict[str, list[int]])
Pairs = TypeAliasType("Pairs", dict[str, tuple[T, S]], type_params=(T, S))
Turned = TypeAliasType("Turned", tuple[S, T], type_params=(T, S))
"""As `type Turned[T, S] = tuple[S, T]`."""
Itself = TypeAliasType("Itself", T, type_params=(T,))

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
    (Point, Point(1, 2.5, "a")),
    (list[Point], [Point(1), Point(2, 3.0)]),
    (Sizes, {"a": [1, 2]}),
    (Pairs[int, str], {"a": (1, "b")}),
    (Turned[int, str], ("b", 1)),
    (Itself[int], 3),
    (Union[Sizes, None], None),
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
        (Point, [], r"value\.x: the field is missing"),
        (Point, [1, "a"], r"value\.y: expected a number, got 'a'"),
        (Point, [1, 2, "a", 4], r"value: expected a list of at most 3"),
        (Point, {"x": 1}, r"value: expected a list"),
        (Sizes, {"a": ["b"]}, r"value\.a\[0\]: expected int"),
        (Turned[int, str], [1, "b"], r"value\[0\]: expected str"),
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


class Text(str):
    """As one of numpy or of a library of paths."""


def test_a_subclass_of_a_type_of_json_is_that_type() -> None:
    class Number(float): ...

    class Count(int): ...

    made = plain([Text("a"), Number(1.5), Count(3), True])
    assert [type(one) for one in made] == [str, float, int, bool]
    assert parse(list[Any], made, "value") == ["a", 1.5, 3, True]


class Bare:
    """No dataclass."""


Bares = TypeAliasType("Bares", list[Bare])


@dataclasses.dataclass
class Tree:
    of: list[Tree]
    bare: list[tuple[int, Bare]]


@dataclasses.dataclass
class Later:
    of: Below


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Bare, r"handler: props: the type .*Bare.* is not known here: use a dataclass"),
        (Tree, r"handler: props\.bare\[\]\[\]: the type .*Bare.* is not known here"),
        (dict[str, Bare], r"handler: props\.\*: the type"),
        (dict[int, str], r"handler: props: the keys of an object of JSON are texts, and not <class 'int'>: use str"),
        (Bares, r"handler: props\[\]: the type"),
        (Callable[[], int], r"handler: props: the type"),
        (Optional[Bare], r"handler: props: the type"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_type_that_no_value_has_is_refused_when_the_handler_is_registered(kind: Any, text: str) -> None:
    def handler(job: Any) -> None: ...

    handler.__annotations__["job"] = windlass.Job[kind, None]
    with pytest.raises(TypeError, match=text):
        windlass.App().task("a")(handler)
    handler.__annotations__["job"] = windlass.Job[None, kind]
    with pytest.raises(TypeError, match=text.replace("props", "data")):
        windlass.App().task("a")(handler)


@pytest.mark.parametrize("kind", [kind for kind, _ in VALUES] + [Later], ids=lambda value: str(value)[:40])
def test_a_type_that_values_have_is_taken_when_the_handler_is_registered(kind: Any) -> None:
    def handler(job: Any) -> None: ...

    handler.__annotations__["job"] = windlass.Job[kind, kind]
    assert windlass.App().task("a")(handler).kind == "a"


@dataclasses.dataclass
class Below:
    name: str


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


@dataclasses.dataclass
class Import:
    pages: int
    of: list[Inner] = dataclasses.field(default_factory=list)


def test_a_wrong_field_of_the_props_is_refused_before_a_request() -> None:
    app = windlass.App("http://127.0.0.1:1", "")

    @app.task("import")
    def importer(job: windlass.Job[Import, None]) -> Any:
        return job.submit(importer, job.props)

    client = app.client()
    for task in (importer, windlass.Kind("import", Import)):
        for props, text in (
            (Import("many"), r"^props\.pages: expected int, got 'many'$"),  # type: ignore[arg-type]
            ({"pages": 1, "of": [{}]}, r"^props\.of\[0\]\.name: the field is missing$"),
            (None, r"^props: expected an object, got None$"),
        ):
            wrong: Any = props
            with pytest.raises(ValueMismatch, match=text):
                client.submit(task, wrong)
            with pytest.raises(ValueMismatch, match=text):
                task.new(wrong)
        assert task.new(Import(1), id="a", start_at=60) == {
            "kind": "import", "props": {"pages": 1, "of": []}, "id": "a", "start_at": "in 60000ms",
        }  # fmt: skip
    from windlass_tasks import testing

    assert testing.run(importer, Import(1)).submitted[0]["props"] == {"pages": 1, "of": []}
    with pytest.raises(TypeError, match="props: the type"):
        windlass.Kind("a", Bare)
    with pytest.raises(windlass.Unavailable):
        windlass.Client("http://127.0.0.1:1", "", timeout=0.1).submit(importer, Import(1))


def test_the_time_of_a_server_is_read_with_its_nine_digits() -> None:
    from windlass_tasks._forms import moment

    utc = dt.timezone.utc
    assert moment("2030-01-02T03:04:05.123456789Z") == dt.datetime(2030, 1, 2, 3, 4, 5, 123456, utc)
    assert moment("2030-01-02T03:04:05.5Z") == dt.datetime(2030, 1, 2, 3, 4, 5, 500000, utc)
    assert moment("2030-01-02T03:04:05Z") == dt.datetime(2030, 1, 2, 3, 4, 5, 0, utc)
