//! Tables on narrow terminals, and where no terminal is.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::{fs::File, io::Read};

use crate::live::Place;
use nix::pty::{Winsize, openpty};

/// Runs the program with its standard output on a terminal of this width.
fn on_a_terminal(place: &Place, columns: u16, args: &[&str]) -> Vec<String> {
    let size = Winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let pty = openpty(Some(&size), None).unwrap();
    let mut command = place.windlass(args);
    command.env("NO_COLOR", "1").stdout(pty.slave);
    let mut child = command.spawn().unwrap();
    // Closes this process's copies of the terminal.
    drop(command);
    let mut seen = Vec::new();
    // It ends with an error when the program does.
    let _ = File::from(pty.master).read_to_end(&mut seen);
    assert!(child.wait().unwrap().success());
    let text = String::from_utf8(seen).unwrap();
    text.lines()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// A task that failed with a long text, under an id as the program makes it.
fn place() -> (Place, String) {
    let place = Place::new();
    let reason = "the disk of the remote side is full and it takes no more files until somebody \
                  deletes some of them";
    place.write(
        "lines.jsonl",
        &serde_json::json!({
            "id": "01a20373-cf58-7169-bb13-3e732d36e18c",
            "command": "sh",
            "args": ["-c", format!("echo {reason} >&2; exit 3")],
        })
        .to_string(),
    );
    assert_eq!(place.run(&["run", "lines.jsonl"]).0, 1);
    (place, reason.to_owned())
}

#[test]
fn a_list_fits_a_terminal_of_60_columns() {
    let (place, _) = place();
    let lines = on_a_terminal(&place, 60, &["list"]);
    let [header, row] = lines.as_slice() else {
        panic!("{lines:#?}");
    };
    assert!(
        header.starts_with("ID ") && header.contains("STATE"),
        "{header}"
    );
    let begins = row.starts_with("01a20373-cf58-7169-bb13-3e732d36e18c  failed  exit");
    assert!(begins && row.ends_with('…'), "{row}");
    assert!(lines.iter().all(|l| l.chars().count() <= 60), "{lines:#?}");
}

#[test]
fn the_other_tables_fit_too() {
    let (place, _) = place();
    let _worker = place.start(&["worker", "--name", "the-node-of-a-machine-with-a-long-name"]);
    crate::live::until("the worker is there", || {
        place.run(&["nodes", "-o", "json"]).1.contains("the-node")
    });
    for (args, has) in [(&["nodes"][..], "working"), (&["stats"], "failed")] {
        let lines = on_a_terminal(&place, 60, args);
        assert!(lines.iter().any(|l| l.contains(has)), "{lines:#?}");
        assert!(lines.iter().all(|l| l.chars().count() <= 60), "{lines:#?}");
    }
}

#[test]
fn a_wide_terminal_shows_every_column_and_a_pipe_is_never_cut() {
    let (place, reason) = place();
    for out in [
        on_a_terminal(&place, 250, &["list"]).join("\n"),
        place.run(&["list"]).1,
    ] {
        for column in ["ID", "KIND", "STATE", "FOR", "DUE", "ATTEMPTS", "NODE"] {
            assert!(out.contains(column), "{column}: {out}");
        }
        assert!(out.contains(&reason) && !out.contains('…'), "{out}");
    }
}
