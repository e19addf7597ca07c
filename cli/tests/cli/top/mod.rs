//! `windlass top`: on a terminal, once, and from a server.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod terminal;

use std::{
    fs::{self, File},
    process::Stdio,
};

use crate::live::{Place, Running, until};
use nix::sys::signal::Signal;
use serde_json::Value;
use terminal::Terminal;

/// A place with two tasks that no node runs.
fn place() -> Place {
    let place = Place::new();
    let (code, _, err) = place.run(&["submit", "--id", "a", "--retry", "never", "--", "true"]);
    assert_eq!(code, 0, "{err}");
    let (code, _, err) = place.run(&["submit", "--id", "b", "--kind", "mail", "--props", "1"]);
    assert_eq!(code, 0, "{err}");
    place
}

#[test]
fn the_page_is_on_the_terminal_until_a_key_or_a_signal_ends_it() {
    let place = place();
    for (end, code) in [("q", 0), ("\x1b", 0), ("\x03", 130)] {
        let mut top = Terminal::start(place.windlass(&["top"]), (30, 100));
        top.until_page();
        top.until("PER SECOND");
        top.until("1 mail: no live node handles its kind");
        assert!(!top.is_cooked());
        top.press("p");
        top.until("paused, data is ");
        top.press(end);
        top.ends(code);
    }
    for signal in [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
        Signal::SIGQUIT,
    ] {
        let mut top = Terminal::start(place.windlass(&["top"]), (10, 40));
        top.until("q quit");
        top.running.signal(signal);
        top.ends(130);
    }
}

#[test]
fn the_page_shows_what_a_worker_does() {
    let place = place();
    let mut top = Terminal::start(place.windlass(&["top", "--every", "100ms"]), (40, 120));
    top.until("no node lives");
    let worker = Running::of(
        place
            .windlass(&["worker", "--name", "digger"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    top.until("digger");
    let (code, _, err) = place.run(&["wait", "a"]);
    assert_eq!(code, 0, "{err}");
    let (_, _, err) = place.run(&["submit", "--id", "c", "--retry", "never", "--", "false"]);
    assert!(!err.contains("error"), "{err}");
    top.until("attempts");
    top.until("exec");
    top.press("q");
    top.ends(0);
    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.wait(), Some(0));
}

#[test]
fn without_a_terminal_it_prints_one_page() {
    let place = place();
    let (code, out, err) = place.run(&["top", "--every", "100ms"]);
    assert_eq!(code, 0, "{err}");
    assert!(!out.contains('\x1b'), "{out:?}");
    for text in [
        "PER SECOND",
        "lateness p99",
        "FAILING KINDS",
        "1 mail: no live node handles its kind",
        "try: windlass list --kind mail",
    ] {
        assert!(out.contains(text), "{text} in {out}");
    }
    let (_, colored, _) = place.run(&["top", "--every", "100ms", "--once", "--color", "always"]);
    assert!(colored.contains("\x1b[1m"), "{colored:?}");
    let mut once = Terminal::start(
        place.windlass(&["top", "--once", "--every", "100ms", "--color", "never"]),
        (30, 100),
    );
    once.until("NODES 0");
    assert!(!once.has_escapes);
    once.ends_without_page(0);
    let (code, out, err) = place.run(&["top", "-o", "json", "--every", "100ms"]);
    assert_eq!(code, 0, "{err}");
    let page: Value = serde_json::from_str(&out).unwrap();
    let names: Vec<_> = page["activity"]["windows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].clone())
        .collect();
    assert_eq!(names, ["10s", "1m", "10m", "1h"]);
    assert_eq!(page["why"]["waiting"].as_array().unwrap().len(), 2);
}

#[test]
fn what_cannot_be_shown_is_refused_with_the_reason() {
    let place = Place::new();
    for (words, code, says) in [
        (&["top"][..], 4, "s.db"),
        (
            &["top", "--server", "https://a"],
            2,
            "https is not supported",
        ),
        (
            &["top", "--server", "http://localhost:1"],
            2,
            "WINDLASS_TOKEN",
        ),
        (
            &["top", "--server", "unix:none.sock"],
            4,
            "could not reach the server at unix:none.sock",
        ),
        (&["top", "--token-file", "t"], 2, "--server"),
        (
            &["top", "--server", "http://a", "--token-file", "none"],
            2,
            "none: ",
        ),
        (
            &["top", "--store", "memory:", "--server", "unix:s"],
            2,
            "leave out --store or --server",
        ),
        (&["top", "--every", "1ms"], 2, "give 100ms to 1h"),
    ] {
        let mut command = place.windlass(words);
        let out = command.env_remove("WINDLASS_TOKEN").output().unwrap();
        let err = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(code), "{words:?}: {err}");
        assert!(err.contains(says), "{words:?}: {err}");
    }
}

/// Starts a server of the place, and returns its URL.
fn serve(place: &Place, listen: &str) -> (Running, String) {
    let log = place.path("serve.log");
    let mut command = place.windlass(&["serve", "--socket", "run/s.sock", "--listen", listen]);
    command
        .env("WINDLASS_LOG_FORMAT", "json")
        .stdout(Stdio::null())
        .stderr(File::create(&log).unwrap());
    let running = Running::of(command.spawn().unwrap());
    let mut address = None;
    until("the server listens", || {
        let log = fs::read_to_string(&log).unwrap_or_default();
        let url = log.split("http://").nth(1);
        address = url
            .and_then(|url| url.split(['"', '/']).next())
            .map(str::to_owned);
        address.is_some()
    });
    (running, format!("http://{}", address.unwrap()))
}

#[test]
fn the_page_of_a_server_heals_when_the_server_is_back() {
    let place = place();
    let (server, url) = serve(&place, "127.0.0.1:0");
    let (code, token, err) = place.run(&["token", "new", "top", "--role", "read"]);
    assert_eq!(code, 0, "{err}");
    place.write("token", &token);
    let once = |words: &[&str], token: Option<&str>| {
        let mut command =
            place.windlass(&[&["top", "--once", "--every", "100ms", "--server"], words].concat());
        command.env("WINDLASS_TOKEN", token.unwrap_or_default());
        let out = command.output().unwrap();
        let (out, err) = (
            String::from_utf8(out.stdout).unwrap(),
            String::from_utf8(out.stderr).unwrap(),
        );
        assert!(!err.contains(&token.unwrap_or("wlt_")[..4]), "{err}");
        (out, err)
    };
    // The token is refused until the server has seen it.
    until("the server knows the token", || {
        once(&[&url], Some(token.trim())).1.is_empty()
    });
    for (words, token) in [
        (&[url.as_str()][..], Some(token.trim())),
        (&[&url, "--token-file", "token"], None),
        (&["unix:run/s.sock"], None),
    ] {
        let (out, err) = once(words, token);
        assert!(
            out.contains("1 mail: no live node handles its kind"),
            "{words:?}: {out}{err}"
        );
        assert!(
            out.contains("try: GET /v1/tasks?kind=mail&waits=no_node"),
            "{out}"
        );
    }
    let (_, err) = once(&[&url], Some("wlt_wrong"));
    assert!(
        err.contains("the server refused GET /v1/activity (401)"),
        "{err}"
    );

    let mut page = Terminal::start(
        place.windlass(&["top", "--every", "100ms", "--server", "unix:run/s.sock"]),
        (30, 100),
    );
    // That of the server itself.
    page.until("NODES 1");
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait(), Some(0));
    page.until("no answer for ");
    page.until("could not reach the server");
    let (server, _) = serve(&place, "127.0.0.1:0");
    page.until("counts ");
    page.press("q");
    page.ends(0);
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait(), Some(0));
}
