//! `submit`, of one task and of lines.

use serde_json::json;

use crate::env::Env;

#[test]
fn a_task_has_what_was_given() {
    let env = Env::new();
    let submitted = env.json(&[
        "submit",
        "report",
        "--id",
        "r1",
        "--props",
        r#"{"n":12345678901234567890123}"#,
        "--start-at",
        "2030-01-02T03:04:05Z",
        "--priority",
        "-3",
        "--label",
        "team=a",
        "--label",
        "x=",
        "--retry",
        r#"{"policy":"never"}"#,
    ]);
    assert_eq!(submitted["id"], "r1");
    assert_eq!(submitted["submitted"], "new");
    let ran = env.run(&["get", "r1", "-o", "json"]).ok();
    assert!(
        ran.out.contains("12345678901234567890123"),
        "no number is rounded: {}",
        ran.out
    );
    let got = &ran.lines()[0];
    assert_eq!(got["kind"], "report");
    assert_eq!(got["state"], "sleeping");
    assert_eq!(got["until"], "2030-01-02T03:04:05Z");
    assert_eq!(got["priority"], -3);
    assert_eq!(got["labels"], json!({"team": "a", "x": ""}));
    assert_eq!(got["retry"], json!({"policy": "never"}));
}

#[test]
fn without_an_id_it_gets_one_and_prints_it() {
    let env = Env::new();
    let ran = env.run(&["submit", "--kind", "k", "--in", "2h"]).ok();
    assert_eq!(ran.out.trim().len(), 36);
    assert!(ran.err.contains("no live node handles kind 'k'"), "{ran:?}");
    let quiet = env.run(&["-q", "submit", "k"]).ok();
    assert_eq!(quiet.err, "");
}

#[test]
fn an_id_that_is_taken_is_refused_unless_it_is_the_same() {
    let env = Env::new();
    env.run(&["submit", "k", "--id", "a", "--props", "1"]).ok();
    env.run(&["submit", "k", "--id", "a", "--props", "1"])
        .fails(1, &["task 'a' exists already", "--idempotent"]);
    let again = env.json(&["submit", "k", "--id", "a", "--props", "1", "--idempotent"]);
    assert_eq!(
        (&again["submitted"], &again["state"]),
        (&json!("existing"), &json!("runnable"))
    );
    env.run(&["submit", "k", "--id", "a", "--props", "2", "--idempotent"])
        .fails(1, &["task 'a' exists already; its props are others; "]);
}

#[test]
fn a_bad_line_is_reported_by_number_and_nothing_after_it_is_submitted() {
    let env = Env::new();
    let file = env.write(
        "tasks.jsonl",
        "{\"id\":\"a\",\"kind\":\"k\"}\n\n{\"id\":\"b/c\",\"kind\":\"k\"}\n{\"id\":\"d\",\"kind\":\"k\"}\n",
    );
    let ran = env
        .run(&["submit", "--lines", &file])
        .fails(2, &["line 3: id: 'b/c'", "--keep-going"]);
    assert!(
        ran.out.contains("1 task submitted, 1 not submitted"),
        "{ran:?}"
    );
    env.run(&["get", "d"]).code(3);
    // The existing tasks are the same; the rest is submitted, and the exit code is still 1.
    let ran = env
        .run(&[
            "submit",
            "--lines",
            &file,
            "--keep-going",
            "--idempotent",
            "-o",
            "json",
        ])
        .code(1);
    let report = &ran.lines()[0];
    assert_eq!(
        (&report["submitted"], &report["existing"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(report["failed"][0]["line"], 3);
    assert_eq!(report["ids"], json!(["a", "d"]));
}

#[test]
fn every_kind_of_bad_line_names_its_field() {
    let env = Env::new();
    for (line, says) in [
        ("nonsense", "task: "),
        (r#"{"kind":"k","props":{]}}"#, "task: "),
        (
            r#"{"kind":"k","colour":1}"#,
            "task: 'colour' is not a field; the fields are id, kind",
        ),
        (
            r#"{"kind":"exec","command":"true"}"#,
            "task: 'command' is a field of a command, and belongs in 'props'",
        ),
        (r#"{"id":"a"}"#, "kind: is missing"),
        (r#"{"kind":"k","id":""}"#, "id: is empty"),
        (
            r#"{"kind":"k","start_at":"10000-01-01T00:00:00Z"}"#,
            "start_at: ",
        ),
        (r#"{"kind":"k","labels":{"":"x"}}"#, "labels: "),
        (
            r#"{"kind":"k","retry":{"policy":"strikes","errors":0}}"#,
            "retry.errors: ",
        ),
        (
            &format!(r#"{{"kind":"k","props":"{}"}}"#, "x".repeat(1 << 20)),
            "props: ",
        ),
    ] {
        env.run_with(&["submit", "--lines", "-"], &format!("\n{line}\n"))
            .fails(2, &["line 2: ", says]);
    }
    let ran = env.run(&["list", "-o", "json"]).ok();
    assert_eq!(ran.out, "");
}

#[test]
fn lines_take_what_they_lack_from_the_options() {
    let env = Env::new();
    let many: String = (0..1200)
        .map(|n| format!("{{\"id\":\"t{n}\",\"props\":{n}}}\r\n"))
        .collect();
    let ran = env
        .run_with(
            &[
                "submit", "--lines", "-", "--kind", "k", "--label", "run=7", "--in", "1d",
            ],
            &many,
        )
        .ok();
    assert!(ran.out.contains("1200 tasks submitted"), "{ran:?}");
    let listed = env
        .run(&[
            "list",
            "--reverse",
            "--label",
            "run=7",
            "--limit",
            "5000",
            "-o",
            "json",
        ])
        .ok()
        .lines();
    assert_eq!(listed.len(), 1200);
    assert_eq!(
        (&listed[7]["props"], &listed[7]["state"]),
        (&json!(7), &json!("sleeping"))
    );
}

#[test]
fn a_unique_key_is_taken_once_in_its_period() {
    let env = Env::new();
    let submit = ["submit", "mail", "--unique", "mail-ann=1h", "--id"];
    let with = |more: &[&str]| env.run(&[&submit[..], more].concat());
    with(&["a"]).ok();
    let got = env.json(&["get", "a"]);
    assert_eq!(got["unique"], json!({"key": "mail-ann", "within": "1h"}));
    with(&["b"]).fails(1, &["task 'a' has the unique key 'mail-ann' until "]);
    let there = with(&["b", "--idempotent"]).ok();
    assert_eq!(there.out, "a\n");
    assert!(
        there.err.contains("task 'a' has the unique key already"),
        "{there:?}"
    );
    with(&["b", "--idempotent", "--props", "1"]).fails(1, &["has the unique key"]);
    let line = r#"{"id":"c","kind":"mail","unique":{"key":"mail-ann","within":"1h"}}"#;
    let file = env.write("lines", line);
    env.run(&["submit", "--lines", &file])
        .fails(1, &["has the unique key 'mail-ann'"]);
    let op = format!(r#"{{"op":"submit","if_exists":"skip",{}"#, &line[1..]);
    let file = env.write("operations", &op);
    let applied = env.run(&["apply", &file]).ok();
    assert!(applied.out.contains("there already"), "{applied:?}");
    env.run(&["submit", "mail", "--unique", "mail-ann"])
        .fails(2, &["write it like mail-ann=1h"]);
    env.run(&["submit", "mail", "--unique", "a/b=1h"])
        .fails(2, &["unique.key"]);
}

#[test]
fn a_command_line_is_a_task_of_the_kind_exec() {
    let env = Env::new();
    let props = |id: &str| env.json(&["get", id])["props"].clone();
    let folder = env.path("work");
    std::fs::create_dir(&folder).unwrap();
    let command = ["--", "sh", "-c", "echo from $(pwd -P) --wait"];
    env.run(&[&["submit", "--id", "a", "--cwd", &folder], &command[..]].concat())
        .ok();
    let expected = json!({
        "command": "sh",
        "args": ["-c", "echo from $(pwd -P) --wait"],
        "cwd": folder,
    });
    assert_eq!(props("a"), expected);
    let shell = ["submit", "exec", "--id", "b", "--shell", "echo $((1 + 1))"];
    env.run(&shell).ok();
    assert_eq!(props("b"), json!({"shell": "echo $((1 + 1))"}));
    env.run(&["worker", "--until-idle"]).ok();
    let output = |id: &str| env.json(&["get", id])["result"]["stdout"].clone();
    let folder = std::fs::canonicalize(&folder).unwrap();
    assert_eq!(output("a"), format!("from {} --wait\n", folder.display()));
    assert_eq!(output("b"), "2\n");
    // A folder is also for props, which may name their own.
    let own = [r#"{"command":"true"}"#, r#"{"command":"true","cwd":"/x"}"#];
    for (id, given, cwd) in [("c", own[0], "/y"), ("d", own[1], "/x")] {
        env.run(&[
            "submit", "exec", "--id", id, "--props", given, "--cwd", "/y",
        ])
        .ok();
        assert_eq!(props(id)["cwd"], cwd);
    }
    let hint = env.run(&["submit", "--", "ls", "|", "wc"]).ok();
    assert!(
        hint.err.contains("give the line as --shell 'LINE'"),
        "{hint:?}"
    );
}

#[test]
fn a_command_line_that_cannot_be_a_task_is_rejected() {
    let env = Env::new();
    for (words, says) in [
        (
            &["exec", "--props", "{}", "--", "true"][..],
            &["'--props <JSON>'", "[COMMAND]"][..],
        ),
        (
            &["exec", "--props", "{}", "--shell", "true"],
            &["'--props <JSON>'", "--shell <LINE>"],
        ),
        (
            &["--shell", "true", "--", "true"],
            &["--shell <LINE>", "[COMMAND]"],
        ),
        (
            &["report", "--", "true"],
            &["-- COMMAND or --shell: is for commands, which tasks of kind 'report' are not"],
        ),
        (
            &["report", "--cwd", "/x"],
            &["--cwd, --env-file or --env-from: is for commands"],
        ),
        (&["--", ""], &["props.command: is empty"]),
        (
            &["--", "/"],
            &["command: '/' is a folder; give the program to run"],
        ),
        (
            &["--", "/usr"],
            &["command: '/usr' is a folder; give the program to run"],
        ),
        (
            &["--cwd", "/", "--", "./usr"],
            &["command: './usr' is a folder"],
        ),
        (&["--", ".."], &["props.command: names a folder"]),
        (&["exec", "--cwd", "/x"], &["props.command: is missing"]),
        (&["exec"], &["props.command: is missing; give the program"]),
        (&["--wait"], &["KIND"]),
    ] {
        env.run(&[&["submit"], words].concat()).fails(2, says);
    }
    let store = std::path::PathBuf::from(env.path("store.db"));
    assert!(!store.exists(), "nothing was written");
}

/// A task that starts in an hour "runs when one starts".
#[test]
fn a_note_of_a_missing_node_says_when_the_task_runs() {
    let env = Env::new();
    for (words, says) in [
        (&["k", "--id", "a"][..], "it runs when one starts"),
        (
            &["k", "--in", "1h"],
            "it runs at its time, once one has started",
        ),
        (
            &["k", "--after", "a"],
            "it runs after the tasks that it waits for, once one has started",
        ),
    ] {
        let ran = env.run(&[&["submit"], words].concat()).ok();
        assert!(ran.err.contains(says), "{ran:?}");
    }
    let line = r#"{"kind":"k","start_at":"2100-01-01T00:00:00Z"}"#;
    let ran = env.run_with(&["submit", "--lines", "-"], line).ok();
    let says = "they run once one has started: those with a later start or a wait after it";
    assert!(ran.err.contains(says), "{ran:?}");
}
