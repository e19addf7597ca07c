//! The example of a program that mounts the requests ends on its own, with the promised output.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::{env, path::PathBuf, process::Stdio, time::Duration};

#[tokio::test]
async fn a_program_mounts_the_requests_beside_its_own_pages() {
    let test = env::current_exe().unwrap();
    let target = test.ancestors().nth(2).unwrap();
    let program: PathBuf = target.join("examples/mounted");
    let run = tokio::process::Command::new(&program)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let run = tokio::time::timeout(Duration::from_secs(60), run).await;
    let run = run
        .expect("an end of the example within 60 s")
        .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let out = String::from_utf8(run.stdout).unwrap();
    let err = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{out} {err}");
    let lines: Vec<_> = out.lines().collect();
    let [page, made, ended] = lines.as_slice() else {
        panic!("not three lines: {out} {err}");
    };
    assert_eq!(*page, "the page of the program");
    assert_eq!(*made, r#"{"id":"a","submitted":"new"}"#);
    assert!(
        ended.contains(r#""completed""#) && ended.contains(r#""hello""#),
        "{ended}"
    );
}
