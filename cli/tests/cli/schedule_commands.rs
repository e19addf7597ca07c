//! The commands of schedules: their folders, their files of variables, and what is rejected.

use serde_json::json;

use crate::env::Env;

const CREATE: [&str; 5] = ["schedule", "create", "nightly", "--cron", "@daily"];

fn props(env: &Env) -> serde_json::Value {
    env.json(&["schedule", "get", "nightly"])["spec"]["run"]["props"].clone()
}

#[test]
fn a_run_has_its_folder_and_its_variables() {
    let env = Env::new();
    let folder = env.path("work");
    std::fs::create_dir(&folder).unwrap();
    let variables = env.write("job.env", "GREETING=hello\n");
    let token = env.write("token", "secret\n");
    let from = format!("TOKEN={token}");
    let options = [
        "--cwd",
        &folder,
        "--env-file",
        &variables,
        "--env-from",
        &from,
    ];
    let command = ["--", "sh", "-c", "echo $GREETING $TOKEN from $(pwd -P)"];
    env.run(&[&CREATE[..], &options, &command].concat()).ok();
    let expected = json!({
        "command": "sh",
        "args": ["-c", "echo $GREETING $TOKEN from $(pwd -P)"],
        "cwd": folder,
        "env_file": variables,
        "env_from_file": {"TOKEN": token},
    });
    assert_eq!(props(&env), expected);
    let run = env.json(&["schedule", "trigger", "nightly"])["runs"][0].clone();
    env.run(&["worker", "--until-idle"]).ok();
    let ended = env.json(&["get", run.as_str().unwrap()]);
    let folder = std::fs::canonicalize(&folder).unwrap();
    let output = format!("hello secret from {}\n", folder.display());
    assert_eq!(ended["result"]["stdout"], output, "{ended}");
}

#[test]
fn an_update_changes_the_given_options_of_a_command() {
    let env = Env::new();
    let (first, second) = (env.path("a.env"), env.path("b.env"));
    let options = [
        "--cwd",
        "/first",
        "--env-file",
        &first,
        "--env-from",
        "A=/a",
    ];
    env.run(&[&CREATE[..], &options, &["--", "first"]].concat())
        .ok();
    let update = |more: &[&str]| {
        env.run(&[&["schedule", "update", "nightly"], more].concat())
            .ok();
    };
    update(&["--", "second", "word"]);
    let mut expected = json!({
        "command": "second",
        "args": ["word"],
        "cwd": "/first",
        "env_file": first,
        "env_from_file": {"A": "/a"},
    });
    assert_eq!(props(&env), expected);
    update(&[
        "--env-file",
        &second,
        "--env-from",
        "A=/b",
        "--env-from",
        "B=/c",
    ]);
    expected["env_file"] = json!(second);
    expected["env_from_file"] = json!({"A": "/b", "B": "/c"});
    assert_eq!(props(&env), expected);
    // A relative path counts from the present folder, not from that of the worker.
    update(&["--cwd", "below"]);
    let here = std::env::current_dir().unwrap();
    expected["cwd"] = json!(here.join("below"));
    assert_eq!(props(&env), expected);
    update(&["--shell", "a | b"]);
    let mut line = expected.clone();
    line["shell"] = json!("a | b");
    if let Some(line) = line.as_object_mut() {
        line.retain(|name, _| name != "command" && name != "args");
    }
    assert_eq!(props(&env), line);
    // Props replace the whole command, and options take precedence over them.
    update(&["--props", r#"{"shell":"true","cwd":"/x"}"#, "--cwd", "/y"]);
    assert_eq!(props(&env), json!({"shell": "true", "cwd": "/y"}));
}

/// Regression: of four updates at the same time, one was kept.
#[test]
fn updates_at_once_are_all_kept() {
    let env = Env::new();
    env.run(&[&CREATE[..], &["--at-once", "disk=1", "--", "true"]].concat())
        .ok();
    let options = [
        ("--jitter", "3s"),
        ("--count", "70"),
        ("--rate", "api=2/1m"),
        ("--priority", "4"),
    ];
    std::thread::scope(|scope| {
        for (option, value) in options {
            let args = ["schedule", "update", "nightly", option, value];
            scope.spawn({
                let env = &env;
                move || env.run(&args).ok()
            });
        }
    });
    let spec = &env.json(&["schedule", "get", "nightly"])["spec"];
    assert_eq!(spec["jitter"], "3s", "{spec}");
    assert_eq!(spec["count"], 70, "{spec}");
    assert_eq!(spec["run"]["priority"], 4, "{spec}");
    // --rate leaves the limits of --at-once as they are.
    let limits = &spec["run"]["limits"];
    assert_eq!(limits[0]["key"], "disk", "{limits}");
    assert_eq!(limits[1]["key"], "api", "{limits}");
}

#[test]
fn a_command_that_can_only_fail_is_rejected() {
    let env = Env::new();
    for (words, says) in [
        (&["--", ""][..], "props.command: is empty"),
        (&["--", " "], "props.command: is empty"),
        (&["--", "bin/"], "props.command: names a folder"),
        (&["--cwd", "", "--", "true"], "'--cwd <DIR>'"),
        (
            &[
                "--kind",
                "exec",
                "--props",
                r#"{"command":"true","cwd":""}"#,
            ],
            "props.cwd: names no folder",
        ),
        (
            &["--kind", "exec", "--cwd", "/x"],
            "props.command: is missing",
        ),
        (
            &["--kind", "report", "--", "true"],
            "-- COMMAND or --shell: is for commands, which runs of kind 'report' are not",
        ),
        (
            &["--kind", "report", "--cwd", "/x"],
            "--cwd, --env-file or --env-from: is for commands, which runs of kind 'report' are not",
        ),
        (
            &["--env-from", "A=/a", "--env-from", "A=/b", "--", "true"],
            "--env-from: 'A=/a' and 'A=/b' give one name two values",
        ),
    ] {
        env.run(&[&CREATE[..], words].concat()).fails(2, &[says]);
    }
    let store = std::path::PathBuf::from(env.path("store.db"));
    assert!(!store.exists(), "nothing was written");
}
