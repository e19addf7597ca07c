//! Wrong input and unusable stores: the exit code, and an error that names the field.

use serde_json::json;

use crate::env::Env;

/// Returns a word of a command line: `''` is empty, `LONG` is an id that is too long.
fn word_of<'w>(word: &'w str, long: &'w str) -> &'w str {
    match word {
        "''" => "",
        "LONG" => long,
        word => word,
    }
}

#[test]
fn wrong_input_names_the_field() {
    let env = Env::new();
    env.run(&["submit", "k", "--id", "a"]).ok();
    let long = "x".repeat(257);
    for (line, says) in [
        ("submit k --id a/b", "id: 'a/b' contains '/'"),
        ("submit k --id ..", "id: '..' is reserved"),
        ("submit k --id ''", "id: is empty"),
        ("submit k --id LONG", "id: has 257 bytes"),
        ("submit _k", "kind: '_k' begins with '_'"),
        ("submit k --props {'a'}", "props: is not JSON"),
        (
            "submit k --props @/nowhere/x.json",
            "props: the file /nowhere/x.json",
        ),
        (
            "submit k --retry {}",
            "retry: '{}' is not a number of attempts",
        ),
        (
            "submit k --retry=-1",
            "retry: '-1' is not a number of attempts (1 or more)",
        ),
        (
            "submit exec --props []",
            "props: is an array, not an object",
        ),
        (
            r#"submit exec --props {"comand":"true"}"#,
            "props: 'comand' is not a field; write 'command'",
        ),
        (
            "submit k --priority high",
            "'high' is not a whole number from -2147483648 to 2147483647",
        ),
        (
            "submit k --env-file x.env",
            "is for commands, which tasks of kind 'k' are not",
        ),
        (
            "submit exec --env-from TOKEN",
            "write it like TOKEN=/run/secrets/token",
        ),
        (
            r#"submit exec --props {"command":"true"} --env-from TOKEN=a --env-from TOKEN=b"#,
            "--env-from: 'TOKEN=a' and 'TOKEN=b' give one name two values",
        ),
        ("submit k --start-at someday", "--start-at"),
        (
            "submit k --in 99999999h",
            "--in: ends beyond 9999-12-30T22:00:00Z",
        ),
        ("submit k --in -5s", "'-5s' is negative; write it like 90s"),
        ("sleep a --for -5s", "'-5s' is negative"),
        (
            "sleep a --for 0s",
            "--for: is too short; give a longer one, or run the tasks now with `resume`",
        ),
        (
            "run --each true --batch ''",
            "a value is required for '--batch <NAME>'",
        ),
        (
            "--store memory: submit k",
            "store: memory: is gone when this program ends",
        ),
        (
            "--store memory: submit --lines /dev/null",
            "store: memory: is gone when this program ends",
        ),
        ("submit k --label x", "--label"),
        ("submit --lines /nowhere/x", "lines: the file /nowhere/x"),
        ("submit --lines - --props -", "cannot both read"),
        ("submit", "KIND"),
        ("get a/b", "id: 'a/b' contains '/'"),
        ("pause _a", "id: '_a' begins with '_'"),
        (
            "sleep a --until 2020-01-01T00:00:00Z",
            "until: 2020-01-01T00:00:00Z is in the past",
        ),
        (
            "sleep a --until 10000-01-01T00:00:00Z",
            "is not a time up to 9999-12-30T22:00:00Z",
        ),
        (
            "sleep a --for 99999999h",
            "--for: ends beyond 9999-12-30T22:00:00Z",
        ),
        ("sleep a --for 10", "write it like 90s"),
        ("sleep a", "--until"),
        ("complete a --result {", "result: is not JSON"),
        ("list --limit 0", "limit: 0 is not from 1 to 1000000"),
        ("list --limit 9999999", "limit: 9999999 is not from 1"),
        ("list --state happy", "--state"),
        (
            "list --state waiting",
            "'waiting' is not one of running, queued, runnable",
        ),
        ("kill a --timeout 1s", "--wait"),
        ("watch --after 999999", "after: "),
        (
            "worker --lease-ttl 0s",
            "'--lease-ttl <DURATION>': 0s is not from 200ms to 1h; 15s is the default",
        ),
        (
            "worker --retention never",
            "'--retention <DURATION>': 'never' is not a duration; write it like 90s, 15m, 1h30m or 7d, or 'forever'",
        ),
        ("worker -j 0", "'--slots <N>': 0 is not from 1 to 1000000"),
        (
            "worker --grace -1s",
            "'--grace <DURATION>': '-1s' is negative",
        ),
        (
            "run -j 0 --each true /dev/null",
            "'--jobs <N>': 0 is not from 1 to 1000000",
        ),
        (
            "run --timeout 0s --each true /dev/null",
            "'--timeout <DURATION>': '0s' is too short; give a longer one, or leave it out",
        ),
        ("list -o xml", "--output"),
        ("worker --slots many", "'many' is not a number"),
        ("watch --after x", "'x' is not a number"),
        ("watch --limit 0", "0 is not a number of 1 or more"),
        ("logs a --attempt 0", "0 is not a number of 1 or more"),
        ("list --limit x", "'x' is not a number"),
        (
            "kill --state runnable",
            "this would kill 1 task; without a terminal give --yes",
        ),
        (
            "--store postgres://x list",
            "store: 'postgres://x' is not one of",
        ),
        ("--store jobs.db list", "store: 'jobs.db' is not one of"),
        ("dance", "dance"),
    ] {
        let words: Vec<&str> = line.split(' ').map(|word| word_of(word, &long)).collect();
        env.run(&words).fails(2, &[says]);
    }
    let too_large = env.write("large.json", &format!("\"{}\"", "x".repeat(1 << 20)));
    env.run(&["submit", "k", "--props", &format!("@{too_large}")])
        .fails(
            2,
            &["props has 1048578 bytes; the store takes at most 1048576"],
        );
    for (line, says) in [
        ("{}", "task: says no command; write it like"),
        ("[]", "task: is not a JSON object"),
        (
            r#"{"command":"true","timeot":"1s"}"#,
            "task: 'timeot' is not a field; write 'timeout'",
        ),
    ] {
        env.run_with(&["run"], line).fails(2, &["line 1", says]);
    }
    let deep = format!("{}{}", "[".repeat(101), "]".repeat(101));
    env.run(&["submit", "k", "--props", &deep])
        .fails(2, &["props: is nested 101 levels deep; at most 100"]);
    assert_eq!(env.json(&["stats"])["tasks"], 1);
}

#[test]
fn props_that_are_nested_as_deep_as_allowed_can_be_shown() {
    let env = Env::new();
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    env.run(&["submit", "k", "--id", "a", "--props", &deep])
        .ok();
    assert_eq!(env.json(&["get", "a"])["props"].to_string(), deep);
    assert_eq!(env.json(&["list"])["props"].to_string(), deep);
}

#[test]
fn errors_are_one_line_that_no_terminal_obeys() {
    let env = Env::new();
    let ran = env
        .run(&["submit", "k", "--id", "a\u{1b}[2J\nb"])
        .fails(2, &["id: "]);
    assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
    assert!(!ran.err.contains('\u{1b}'), "{ran:?}");
}

#[test]
fn files_that_are_no_store_of_ours_are_refused_as_they_are() {
    let env = Env::new();
    let text = env.write("notes.txt", &"these are my notes\n".repeat(100));
    let other = env.path("other.db");
    rusqlite::Connection::open(&other)
        .unwrap()
        .execute_batch("CREATE TABLE songs (name TEXT)")
        .unwrap();
    for (path, says) in [
        (text.as_str(), "is not a SQLite database"),
        (other.as_str(), "of another program"),
        ("/nowhere/at/all.db", "/nowhere/at"),
    ] {
        let before = std::fs::read(path).ok();
        let url = format!("sqlite:{path}");
        env.run(&["--store", &url, "list"]).fails(4, &[says]);
        assert_eq!(std::fs::read(path).ok(), before, "{path} was touched");
    }
    // A command that writes adds the tables of windlass to those of the other program.
    let url = format!("sqlite:{other}");
    env.run(&["--store", &url, "submit", "k", "--id", "a"]).ok();
    env.run(&["--store", &url, "get", "a"]).ok();
    env.run(&["submit", "k"]).ok();
    env.sql("UPDATE windlass_meta SET value = 999 WHERE name = 'version'");
    env.run(&["list"]).fails(4, &["newer"]);
}

#[test]
fn a_record_that_cannot_be_read_is_shown_and_can_be_retried() {
    let env = Env::new();
    env.run(&["submit", "k", "--id", "a", "--props", "1"]).ok();
    env.run(&["submit", "k", "--id", "b"]).ok();
    env.sql("UPDATE windlass_states SET state = '{\"state\":\"dancing\"}' WHERE n = (SELECT n FROM windlass_tasks WHERE id = 'a')");
    let listed = env.run(&["list", "--reverse", "-o", "json"]).ok().lines();
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[0]["state"], "quarantined");
    assert!(
        listed[0]["quarantined"]
            .as_str()
            .unwrap()
            .contains("dancing"),
        "{}",
        listed[0]
    );
    assert!(env.run(&["get", "a"]).ok().out.contains("quarantined"));
    env.run(&["retry", "a"]).ok();
    let got = env.json(&["get", "a"]);
    assert_eq!(
        (&got["state"], &got["props"]),
        (&json!("runnable"), &json!(1))
    );
}

#[test]
fn the_default_store_is_in_the_data_directory() {
    let env = Env::new();
    let home = env.path("home");
    let run = |words: &[&str]| {
        let mut command = env.command();
        command
            .env_remove("WINDLASS_STORE")
            .env("HOME", &home)
            .env("XDG_DATA_HOME", env.path("data"));
        command.args(words).output().unwrap()
    };
    for words in [&["list"][..], &["get", "a"], &["stats"], &["pause", "a"]] {
        let ran = run(words);
        let err = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(4), "{err}");
        assert!(err.contains("there is no file"), "{err}");
    }
    let folder = env.path("data");
    assert!(!std::path::Path::new(&folder).exists(), "{folder} was made");
    assert!(run(&["submit", "k", "--id", "a"]).status.success());
    assert!(std::path::Path::new(&env.path("data/windlass/windlass.db")).exists());
    assert!(run(&["get", "a"]).status.success());
}

#[test]
fn a_store_file_that_does_not_exist_is_not_made_by_those_who_only_read() {
    let env = Env::new();
    for words in [
        &["list"][..],
        &["get", "a"],
        &["stats"],
        &["nodes"],
        &["pause", "a"],
        &["purge", "--older-than", "1d", "--yes"],
    ] {
        env.run(words)
            .fails(4, &["there is no file", "store.db", "--store"]);
    }
    assert!(!std::path::Path::new(&env.path("store.db")).exists());
}

#[test]
fn a_log_filter_that_cannot_be_read_is_refused() {
    let env = Env::new();
    let run = |filter: &str| {
        let mut command = env.command();
        command.env("WINDLASS_LOG", filter).args(["submit", "k"]);
        let ran = command.output().unwrap();
        (ran.status.code(), String::from_utf8(ran.stderr).unwrap())
    };
    let (code, err) = run("windlass=loud");
    assert_eq!(code, Some(2), "{err}");
    assert!(
        err.starts_with("error: WINDLASS_LOG: 'windlass=loud' is not a filter"),
        "{err}"
    );
    for filter in ["", "windlass=debug"] {
        assert_eq!(run(filter).0, Some(0), "{filter}");
    }
}

/// clap shows an option that the environment sets as if it were required.
#[test]
fn a_usage_line_names_no_store_that_the_environment_sets() {
    let env = Env::new();
    let ran = env
        .run(&["sleep", "a"])
        .fails(2, &["--until", "Usage: windlass sleep"]);
    assert!(!ran.err.contains("--store"), "{ran:?}");
}

#[test]
fn every_reader_of_text_skips_a_byte_order_mark() {
    let env = Env::new();
    let lines = env.write("tasks.jsonl", "\u{feff}{\"kind\":\"k\",\"id\":\"a\"}\n");
    env.run(&["submit", "--lines", &lines]).ok();
    env.run_with(
        &["submit", "--lines", "-", "--kind", "k"],
        "\u{feff}{\"id\":\"b\"}",
    )
    .ok();
    let props = env.write("props.json", "\u{feff}[1]");
    let given = format!("@{props}");
    env.run(&["submit", "k", "--id", "c", "--props", &given])
        .ok();
    assert_eq!(env.json(&["get", "c"])["props"], json!([1]));
    assert_eq!(env.json(&["stats"])["tasks"], 3);
    let crontab = "\u{feff}0 6 * * * report\r\n0 7 * * * mail%dear\r\n";
    let file = env.write("crontab", crontab);
    let words = ["schedule", "import", "--dry-run", "-o", "json"];
    let from_file = env.run(&[&words[..], &[&file]].concat()).ok();
    let from_pipe = env.run_with(&[&words[..], &["-"]].concat(), crontab).ok();
    assert_eq!(from_file.out, from_pipe.out);
    let specs: Vec<_> = from_file
        .lines()
        .iter()
        .map(|line| line["spec"].clone())
        .collect();
    assert_eq!(specs[0]["cron"], json!(["0 6 * * *"]));
    assert_eq!(
        specs[1]["run"]["props"],
        json!({"shell": "mail", "stdin": "dear\n"})
    );
    let lines = env.write("changes", "\u{feff}{\"op\":\"delete\",\"task\":\"a\"}\r\n");
    env.run(&["apply", &lines]).ok();
}

#[test]
fn a_sleeping_task_is_resumed_and_not_retried() {
    let env = Env::new();
    env.run(&["submit", "k", "--id", "a", "--in", "1h"]).ok();
    env.run(&["retry", "a"]).fails(
        1,
        &[
            "error: task 'a': state: is sleeping; retry starts only tasks that have ended",
            "resume it to run it now",
        ],
    );
    let none = env.run(&["retry", "--state", "sleeping", "--yes"]).ok();
    let says =
        "retry: no task matches\nnote: retry takes only tasks that have ended or are quarantined\n";
    assert_eq!(none.err, says);
    let none = env.run(&["retry", "--kind", "other", "--yes"]).ok();
    assert_eq!(none.err, "retry: no task matches\n");
}

/// Regression: the error advised options that only `serve` has.
#[test]
fn a_worker_that_serves_advises_only_its_own_options() {
    let env = Env::new();
    let ran = env.run(&["worker", "--serve", "0.0.0.0:0"]).code(2);
    let says = "--serve: address 0.0.0.0:0 can be reached";
    assert!(ran.err.contains(says), "{ran:?}");
    assert!(
        !ran.err.contains("--tls") && !ran.err.contains("--behind"),
        "{ran:?}"
    );
}
