"""The place in a distributed trace: that of OpenTelemetry if `opentelemetry-api` is installed, else that of the environment."""

from __future__ import annotations

import contextlib
import os
import types
from collections.abc import Iterator
from typing import Any


def _api() -> Any:
    try:
        from opentelemetry import context, propagate, trace
    except ImportError:
        return None
    return types.SimpleNamespace(context=context, propagate=propagate, trace=trace)


_otel = _api()
_NAMES = ("traceparent", "tracestate")


def current() -> dict[str, str]:
    """The place of the caller: the headers of a request, and the `meta` of a task."""
    place: dict[str, str] = {}
    if _otel is not None:
        _otel.propagate.inject(place)
    if "traceparent" not in place:
        place = {name: value for name in _NAMES if (value := os.environ.get(name.upper()))}
    return {name: value for name, value in place.items() if name in _NAMES and value.isascii() and value.isprintable()}


class Span:
    """The span of a run."""

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def failed(self, text: str) -> None:
        if self._span is not None:
            self._span.set_status(_otel.trace.Status(_otel.trace.StatusCode.ERROR, text))


@contextlib.contextmanager
def run(job: Any) -> Iterator[Span]:
    """Makes the run of a job a trace of its own, with a link to the place from which its task was submitted."""
    if _otel is None:
        yield Span()
        return
    submitted = _otel.trace.get_current_span(_otel.propagate.extract(job.meta, _otel.context.Context())).get_span_context()
    tracer = _otel.trace.get_tracer("windlass")
    with tracer.start_as_current_span(
        job.kind,
        context=_otel.context.Context(),
        kind=_otel.trace.SpanKind.CONSUMER,
        links=[_otel.trace.Link(submitted)] if submitted.is_valid else [],
        attributes={"task": job.id, "kind": job.kind, "fence": job.fence, "attempt": job.attempt},
        # The text of an exception may raise another one.
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield Span(span)
        except Exception as error:
            Span(span).failed(_text(error))
            raise


def _text(error: Exception) -> str:
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except Exception:
        return name
