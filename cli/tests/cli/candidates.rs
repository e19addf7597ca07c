//! What completes ids, kinds and nodes.

use std::time::{Duration, Instant};

use crate::env::Env;

fn asked(env: &Env, line: &str) -> Vec<String> {
    let words: Vec<&str> = line.split(' ').collect();
    let ran = env.run(&[&["__candidates", "windlass"][..], &words].concat());
    assert_eq!(ran.err, "");
    ran.ok().out.lines().map(str::to_owned).collect()
}

#[test]
fn ids_and_kinds_complete_by_their_beginning() {
    let env = Env::new();
    for (kind, id) in [
        ("mail", "report-1"),
        ("mail", "report-2"),
        ("poll", "other"),
    ] {
        env.run(&["submit", kind, "--id", id]).ok();
    }
    assert_eq!(asked(&env, "get rep"), ["report-1", "report-2"]);
    assert_eq!(asked(&env, "pause other report-"), ["report-1", "report-2"]);
    assert_eq!(asked(&env, "get "), ["other", "report-1", "report-2"]);
    assert_eq!(asked(&env, "list --kind "), ["mail", "poll"]);
    assert_eq!(asked(&env, "submit p"), ["poll"]);
    for line in ["get x", "list ", "get -", "submit k --id ", "dance "] {
        assert_eq!(asked(&env, line), [""; 0], "{line}");
    }
}

#[test]
fn at_most_200_candidates_are_printed() {
    let env = Env::new();
    let lines: String = (0..500)
        .map(|n| format!("{{\"id\":\"t{n}\",\"kind\":\"k\"}}\n"))
        .collect();
    env.run_with(&["submit", "--lines", "-"], &lines).ok();
    assert_eq!(asked(&env, "get t").len(), 200);
    assert_eq!(asked(&env, "get t49").len(), 11);
}

#[test]
fn a_store_that_does_not_exist_or_answer_has_no_candidates() {
    let env = Env::new();
    assert_eq!(asked(&env, "get "), [""; 0]);
    assert!(!std::path::Path::new(&env.path("store.db")).exists());
    let other = format!("--store sqlite:{} get ", env.path("other.db"));
    assert_eq!(asked(&env, &other), [""; 0]);
    assert!(!std::path::Path::new(&env.path("other.db")).exists());
    for url in ["memory:", "nonsense:x"] {
        assert_eq!(asked(&env, &format!("--store {url} get ")), [""; 0]);
    }
    // A server that accepts the connection and never responds.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let began = Instant::now();
    let line = format!("--store etcd://127.0.0.1:{port}/ns get ");
    assert_eq!(asked(&env, &line), [""; 0]);
    // A busy machine takes its time; without the limit it would be a minute.
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn the_store_is_the_one_that_the_line_names() {
    let env = Env::new();
    let other = format!("sqlite:{}", env.path("other.db"));
    env.run(&["--store", &other, "submit", "k", "--id", "there"])
        .ok();
    assert_eq!(asked(&env, &format!("--store {other} get t")), ["there"]);
    assert_eq!(asked(&env, &format!("get --store={other} t")), ["there"]);
    assert_eq!(asked(&env, "get t"), [""; 0]);
}

/// bash is on every machine that builds this.
#[test]
fn bash_completes_ids_with_the_script() {
    let env = Env::new();
    env.run(&["submit", "mail", "--id", "report-1"]).ok();
    let script = env.run(&["completions", "bash"]).ok().out;
    let script = env.write("windlass.bash", &script);
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_windlass"));
    let path = format!(
        "{}:{}",
        program.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let complete = |words: &str| {
        let test = format!(
            "source {script}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); \
             _windlass_or_store windlass \"${{COMP_WORDS[COMP_CWORD]}}\" get; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let output = std::process::Command::new("bash")
            .args(["-c", &test])
            .env("WINDLASS_STORE", env.url())
            .env("PATH", &path)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(complete("windlass get rep"), "report-1\n");
    // Words that do not come from the store are completed as before.
    assert!(complete("windlass get --hist").contains("--history"));
}
