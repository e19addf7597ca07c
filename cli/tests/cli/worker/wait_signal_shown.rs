//! A wait for a signal as the documents and lists show it.

use std::fs;

use serde_json::json;

use super::wait_signal::{WINDLASS, script, send, signal, stdout, until_it_waits, worker};
use crate::live::Place;

/// Regression: the script of the page failed for good after a payload without a name.
#[test]
fn the_script_of_the_page_waits_again_after_a_wrong_payload() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/exec.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, behind) = page.split_once("```sh\n#!/bin/sh\n").unwrap();
    let (line, _) = behind.split_once("```").unwrap();
    assert!(line.contains("wait-signal approve") && line.contains("/srv/build"));
    let place = Place::new();
    place.write("build", "echo run >> runs; echo v1\n");
    place.write("deploy", "echo \"$@\"\n");
    let of_place = |name: &str| format!("sh {}", place.path(name).display());
    let line = line
        .replace("windlass wait-signal", &format!("{WINDLASS} wait-signal"))
        .replace("/srv/build", &of_place("build"))
        .replace("/srv/deploy", &of_place("deploy"));
    let props = json!({"shell": line, "grace": "5s"});
    let (code, _, err) = place.run(&[
        "submit",
        "exec",
        "--id",
        "deploy-7",
        "--retry",
        "never",
        "--props",
        &props.to_string(),
    ]);
    assert_eq!(code, 0, "{err}");
    let _worker = worker(&place);
    until_it_waits(&place, "deploy-7", "approve");
    for wrong in [
        "\"yes\"",
        "null",
        "{}",
        r#"{"by":7}"#,
        r#"{"by":""}"#,
        "[1,2]",
    ] {
        send(&place, "deploy-7", "approve", wrong);
    }
    let sent = signal(&place, "deploy-7", "approve", r#"{"by":"ann"}"#);
    assert_eq!(sent, (0, "\"deployed\"\n".to_owned()));
    assert_eq!(stdout(&place, "deploy-7"), "v1 --approved-by ann\n");
}

/// Regression: the list and `why` named the signal only, and not who had paused the task, and why.
#[test]
fn a_pause_over_a_wait_is_shown_with_its_note() {
    let place = Place::new();
    script(&place, "a", "W approve");
    let _worker = worker(&place);
    until_it_waits(&place, "a", "approve");
    let (_, before, _) = place.run(&["list"]);
    assert!(
        before.contains("approve") && !before.contains("paused by"),
        "{before}"
    );
    let (code, _, err) = place.run(&["pause", "a", "--note", "the database moves", "--wait"]);
    assert_eq!(code, 0, "{err}");
    for words in [&["list"][..], &["list", "--waits", "signal"], &["why", "a"]] {
        let (_, shown, _) = place.run(words);
        assert!(shown.contains("approve"), "{words:?}: {shown}");
        assert!(shown.contains("paused by "), "{words:?}: {shown}");
        assert!(shown.contains(": the database moves"), "{words:?}: {shown}");
    }
}
