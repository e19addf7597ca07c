"""Clients and workers behind proxies, and servers that say nothing: bounded times, what is safe is repeated, and clear errors."""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import Server

import windlass_tasks as windlass

Answer = Callable[[int, str, bytes], "bytes | None"]
PAGE = "<html>upstream</html>"


def http(status: int, body: str, *headers: str, kind: str = "text/html") -> bytes:
    head = [f"HTTP/1.1 {status} Scripted", f"Content-Type: {kind}", f"Content-Length: {len(body.encode())}", *headers, "", ""]
    return "\r\n".join(head).encode() + body.encode()


class Scripted:
    """A server that answers each request as a script says: the number of the request, its first line, the bytes of its body.

    Without an answer it is silent, and the connection stays open."""

    def __init__(self, script: Answer) -> None:
        self.script, self.requests, self.links = script, list[tuple[str, dict[str, str], bytes]](), list[socket.socket]()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                link, _ = self.listener.accept()
                self.links.append(link)
                threading.Thread(target=self.serve, args=(link,), daemon=True).start()

    def serve(self, link: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), link.makefile("rb") as file:
            while first := file.readline().decode().strip():
                headers = {}
                while line := file.readline().decode().strip():
                    name, _, value = line.partition(": ")
                    headers[name.lower()] = value
                body = file.read(int(headers.get("content-length", "0")))
                self.requests.append((first, headers, body))
                answer = self.script(len(self.requests), first, body)
                if answer is not None:
                    link.sendall(answer)

    def close(self) -> None:
        self.listener.close()
        for link in self.links:
            link.close()


@pytest.fixture
def scripted() -> Iterator[Callable[[Answer], Scripted]]:
    made = list[Scripted]()

    def make(script: Answer) -> Scripted:
        made.append(Scripted(script))
        return made[-1]

    yield make
    for one in made:
        one.close()


def silent(*_: Any) -> None:
    """Answers nothing."""


CALLS: dict[str, Callable[[Any], Any]] = {
    "get": lambda client: client.get("a"),
    "submit": lambda client: client.submit("a", 1),
    "result": lambda client: client.result("a", 1.0),
    "signal": lambda client: client.signal("a", "ask", wait=1.0),
    "token": lambda client: client.new_token("ci", "read"),
}


def called(name: str, url: str, is_async: bool, **more: Any) -> Any:
    if not is_async:
        return CALLS[name](windlass.Client(url, "", **more))

    async def main() -> Any:
        async with windlass.AsyncClient(url, "", **more) as client:
            return await CALLS[name](client)

    return asyncio.run(main())


@pytest.mark.parametrize("is_async", [False, True], ids=["blocks", "async"])
@pytest.mark.parametrize("name", CALLS)
def test_a_call_to_a_silent_server_ends_with_its_timeout(scripted: Callable[[Answer], Scripted], name: str, is_async: bool) -> None:
    server = scripted(silent)
    began = time.monotonic()
    with pytest.raises(windlass.Unavailable, match="no answer in"):
        called(name, server.url, is_async, timeout=1.0)
    assert 0.9 < time.monotonic() - began < 2.9, "a wait of 1 s has 2 s more for its answer"


def test_a_wait_for_a_result_ends_with_its_own_timeout(scripted: Callable[[Answer], Scripted]) -> None:
    server = scripted(silent)
    began = time.monotonic()
    with pytest.raises(windlass.Unavailable):
        windlass.Client(server.url, "").result("a", 0.2)
    assert time.monotonic() - began < 5, "30 s is the timeout of the client"


@pytest.mark.parametrize("is_async", [False, True], ids=["blocks", "async"])
@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n"], ids=["head", "body"])
def test_single_bytes_do_not_make_a_call_longer(is_async: bool, head: bytes) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def drip() -> None:
        with contextlib.suppress(OSError):
            while True:
                link, _ = listener.accept()
                link.sendall(head)
                for _ in range(60):
                    link.sendall(b"x")
                    time.sleep(0.1)

    threading.Thread(target=drip, daemon=True).start()
    began = time.monotonic()
    with pytest.raises(windlass.Unavailable):
        called("get", f"http://127.0.0.1:{listener.getsockname()[1]}", is_async, timeout=1.0)
    assert time.monotonic() - began < 2.5
    listener.close()


def test_the_next_server_has_a_part_of_the_time(scripted: Callable[[Answer], Scripted]) -> None:
    first, second = scripted(silent), scripted(lambda *_: http(200, '{"id":"a"}', kind="application/json"))
    client = windlass.Client(f"{first.url} {second.url}", "", timeout=2.0)
    assert client.get("a") == {"id": "a"}


def test_an_early_answer_does_not_end_a_wait(scripted: Callable[[Answer], Scripted]) -> None:
    """A server that ends answers at once: the time of the wait is that of the clock."""

    def script(number: int, first: str, body: bytes) -> bytes:
        state = "running" if number < 4 else "completed"
        return http(200, json.dumps({"id": "a", "state": state, "result": 7}), kind="application/json")

    assert windlass.Client(scripted(script).url, "").result("a", 20) == 7


@pytest.mark.parametrize("is_async", [False, True], ids=["blocks", "async"])
@pytest.mark.parametrize("status", [408, 500, 502, 503, 504, 520])
def test_a_page_of_a_proxy_is_no_answer(scripted: Callable[[Answer], Scripted], status: int, is_async: bool) -> None:
    """What is safe is asked again, with the same key. What is not safe is asked once."""

    def script(number: int, first: str, body: bytes) -> bytes:
        return http(status, PAGE) if number % 2 else http(200, '{"id":"a","submitted":"new"}', kind="application/json")

    for name in ("get", "submit"):
        server = scripted(script)
        assert called(name, server.url, is_async)["id"] == "a"
        (first, headers, body), again = server.requests
        assert again == (first, headers, body)
        assert ("idempotency-key" in headers) == (name == "submit")
    server = scripted(script)
    with pytest.raises(windlass.Unavailable, match="whether the request was carried out is not known"):
        called("token", server.url, is_async)
    assert len(server.requests) == 1


def test_a_request_that_no_server_has_got_is_sent_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    client = windlass.Client(f"http://127.0.0.1:{port}", "")
    seen = list[Any]()
    thread = threading.Thread(target=lambda: seen.append(client.new_token("ci", "read")))
    thread.start()
    time.sleep(0.2)  # It is refused meanwhile.
    with socket.create_server(("127.0.0.1", port)) as listener:
        link, _ = listener.accept()
        link.recv(65536)
        link.sendall(http(200, '{"secret":"s"}', kind="application/json"))
        thread.join(30)
        link.close()
    assert seen == [{"secret": "s"}]


def test_a_request_that_is_not_safe_to_repeat_uses_a_new_connection(scripted: Callable[[Answer], Scripted]) -> None:
    """A proxy has closed the kept one without a word: nobody could tell whether the request was carried out."""
    server = scripted(lambda *_: http(200, '{"secret":"s"}', kind="application/json"))
    client = windlass.Client(server.url, "")
    for _ in range(3):
        client.counts()
        server.links[-1].shutdown(socket.SHUT_RDWR)
        assert client.new_token("ci", "read") == {"secret": "s"}
        server.links[-1].shutdown(socket.SHUT_RDWR)
    assert len(server.requests) == 6


CHANGES: list[Callable[[windlass.Client], Any]] = [
    lambda client: client.submit("a", 1),
    lambda client: client.submit_many([{"kind": "a"}]),
    lambda client: client.reschedule("a", priority=1),
    lambda client: client.retry("a"),
    lambda client: client.patch("a", []),
    lambda client: client.delete("a"),
    lambda client: client.transaction([]),
    lambda client: client.transaction([], id="once"),
    lambda client: client.transaction([], dry_run=True),
    lambda client: client.pause("a"),
    lambda client: client.signal("a", "ask", wait=None),
    lambda client: client.create_schedule("s", {}),
    lambda client: client.update_schedule("s"),
    lambda client: client.change_schedule("s", "trigger"),
    lambda client: client.bulk("kill", {}),
    lambda client: client.node_command("n", "drain"),
    lambda client: client.purge(),
    lambda client: client.set_mask("a", []),
    lambda client: client.new_token("ci", "read"),
    lambda client: client.rotate_token("ci"),
]


def test_every_request_that_is_repeated_is_safe_to_repeat(scripted: Callable[[Answer], Scripted]) -> None:
    """The answer to each change is lost once. What is sent again has a key, or an id of its own."""
    lost: dict[bytes, int] = {}

    def script(number: int, first: str, body: bytes) -> bytes:
        lost[first.encode() + body] = lost.get(first.encode() + body, 0) + 1
        if lost[first.encode() + body] == 1:
            return http(504, PAGE)
        return http(200, "[{}]" if body.startswith(b"[") else '{"id":"a","outcome":{}}', kind="application/json")

    server = scripted(script)
    client = windlass.Client(server.url, "")
    for change in CHANGES:
        server.requests.clear()
        try:
            change(client)
        except windlass.Unavailable as error:
            assert "whether the request was carried out is not known" in str(error)
            assert len(server.requests) == 1
            continue
        (first, headers, body), again = server.requests
        assert again == (first, headers, body)
        sent = json.loads(body) if body else None
        has_id = "?id=" in first or (isinstance(sent, dict) and ("id" in sent or sent.get("dry_run")))
        assert "idempotency-key" in headers or has_id, first


@pytest.mark.parametrize("date", [False, True], ids=["number", "date"])
def test_a_busy_server_is_asked_again_after_its_pause(scripted: Callable[[Answer], Scripted], date: bool) -> None:
    def script(number: int, first: str, body: bytes) -> bytes:
        after = email.utils.formatdate(time.time() + 2, usegmt=True) if date else "1"
        busy = '{"code":"busy","status":503}'
        return http(503, busy, f"Retry-After: {after}") if number == 1 else http(200, "{}", kind="application/json")

    began = time.monotonic()
    assert windlass.Client(scripted(script).url, "").counts() == {}
    assert 0.8 < time.monotonic() - began < 10


ODD = ["[]", "null", "7", '"text"', PAGE, "", '{"status":', '{"ok":true}', "\x00"]


CALLS_OF_ALL: list[Callable[[windlass.Client], Any]] = [
    lambda client: client.result("a", 0.5),
    lambda client: list(client.list()),
    lambda client: client.submit_many([{"kind": "a"}]),
    lambda client: client.signal("a", "ask"),
    lambda client: client.get("a"),
    lambda client: client.submit("a"),
    lambda client: client.counts(),
]


@pytest.mark.parametrize("status", [200, 400, 403, 404, 409])
@pytest.mark.parametrize("body", ODD)
def test_a_body_that_no_server_has_written_is_a_clear_error(scripted: Callable[[Answer], Scripted], body: str, status: int) -> None:
    kinds = {1: "application/json", 2: "text/html"}
    server = scripted(lambda number, *_: http(status, body, kind=kinds[number % 2 + 1]))
    client = windlass.Client(server.url, "", timeout=2.0)
    # Other objects are returned as they are, where nothing is read of them.
    for call in CALLS_OF_ALL if body != '{"ok":true}' else CALLS_OF_ALL[:4]:
        for _ in kinds:
            clear = r"not that of a windlass server|not answered with"
            with pytest.raises((windlass.ApiError, windlass.Unavailable), match=clear):
                call(client)


def test_changes_go_on_behind_a_proxy_that_fails(server: Server, scripted: Callable[[Answer], Scripted]) -> None:
    events = 'id: {0}\nevent: change\ndata: {{"task":"t{0}","seq":{0}}}\n\n'

    def script(number: int, first: str, body: bytes) -> bytes:
        if number % 2:
            return http([502, 504, 503, 200][number // 2 % 4], PAGE, "Connection: close")
        seq = int(first.split("after=")[1].split(" ")[0]) + 1
        cut = f'id: {seq + 1}\nevent: change\ndata: {{"task":'  # It comes again, whole.
        return http(200, events.format(seq) + cut, kind="text/event-stream")

    changes = windlass.Client(scripted(script).url, "").changes(after=0)
    assert [next(changes)["seq"] for _ in range(5)] == [1, 2, 3, 4, 5]
    refused = scripted(lambda *_: http(401, '{"code":"unauthorized"}', kind="application/json"))
    with pytest.raises(windlass.Unauthorized):
        next(windlass.Client(refused.url, "").changes())


@pytest.mark.parametrize(
    "answer",
    [http(200, PAGE), b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.sqlite3\r\nConnection: close\r\n\r\nhalf"],
    ids=["page", "without a length"],
)
def test_a_backup_is_whole_or_an_error(scripted: Callable[[Answer], Scripted], answer: bytes, tmp_path: Any) -> None:
    client = windlass.Client(scripted(lambda *_: answer).url, "")
    with pytest.raises(windlass.Unavailable):
        client.backup(tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()


@pytest.mark.parametrize("is_async", [False, True], ids=["blocks", "async"])
def test_hints_before_an_answer_are_no_answer(scripted: Callable[[Answer], Scripted], is_async: bool) -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    server = scripted(lambda *_: hints + http(200, '{"id":"a"}', kind="application/json"))
    assert called("get", server.url, is_async) == {"id": "a"}


def forwarded(server: Server, first: str, headers: dict[str, str], body: bytes) -> bytes:
    """Sends a request on, and returns the whole answer."""
    with socket.create_connection(("127.0.0.1", server.ports[0])) as up:
        lines = [
            first,
            *(f"{name}: {value}" for name, value in headers.items() if name != "connection"),
            "Connection: close",
            "",
            "",
        ]
        up.sendall("\r\n".join(lines).encode() + body)
        read = b""
        while part := up.recv(65536):
            read += part
    return read


DATE = "Retry-After: " + email.utils.formatdate(0, usegmt=True)
