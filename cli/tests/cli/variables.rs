//! Variables of commands from files: read for each attempt, stored and shown nowhere.

use std::os::unix::fs::PermissionsExt;

use crate::env::{Env, Ran};

const SECRET: &str = "s3cr3t-of-nobody";

fn private(env: &Env, name: &str, text: &str) -> String {
    let path = env.write(name, text);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

fn worked(env: &Env) -> Ran {
    let words = ["-vv", "worker", "--until-idle", "--retry", "never"];
    env.run(&words).ok()
}

/// Returns every byte in the store, the folders and the logs.
fn kept(env: &Env) -> Vec<u8> {
    let mut all = Vec::new();
    let mut folders = vec![std::path::PathBuf::from(env.path(""))];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path
                .file_name()
                .unwrap()
                .to_string_lossy()
                .contains("store.db")
            {
                all.extend(std::fs::read(path).unwrap());
            }
        }
    }
    all
}

#[test]
fn a_command_finds_variables_of_files_that_nothing_stores() {
    let env = Env::new();
    let file = private(
        &env,
        "command.env",
        &format!("# settings\nexport HOST='a b'\nBOTH=file\nOWN=file\nPASSWORD={SECRET}\n"),
    );
    let token = private(&env, "token", &format!("{SECRET}\n"));
    let test = format!(
        "[ \"$HOST\" = 'a b' ] && [ \"$TOKEN\" = {0} ] && [ \"$PASSWORD\" = {0} ] && \
         [ \"$BOTH\" = {0} ] && [ \"$OWN\" = props ] && echo found",
        // Split in two, so that the search of stored bytes does not find it in the command.
        "s3cr3t\"\"-of-nobody"
    );
    let props = serde_json::json!({"shell": test, "env": {"OWN": "props"}}).to_string();
    let both = format!("BOTH={token}");
    let token = format!("TOKEN={token}");
    env.run(&[
        "submit",
        "exec",
        "--id",
        "a",
        "--props",
        &props,
        "--env-file",
        &file,
        "--env-from",
        &token,
        "--env-from",
        &both,
    ])
    .ok();
    let ran = worked(&env);
    let got = env.json(&["get", "a"]);
    assert_eq!(got["state"], "completed", "{got}");
    assert_eq!(got["props"]["env_file"], file.as_str());
    let shown = env.run(&["get", "a"]).ok().out;
    assert!(shown.contains("token"), "{shown}");
    for text in [&ran.err, &got.to_string(), &shown] {
        assert!(!text.contains(SECRET), "{text}");
    }
    let kept = kept(&env);
    assert!(kept.windows(5).any(|w| w == b"found"), "the store was read");
    assert!(!kept.windows(SECRET.len()).any(|w| w == SECRET.as_bytes()));
}

#[test]
fn a_file_that_cannot_be_used_fails_the_attempt_without_its_text() {
    let env = Env::new();
    let bad = private(&env, "bad.env", &format!("A=1\n{SECRET}\n"));
    let folder = env.path("");
    let nul = private(&env, "nul", "a\0b");
    for (id, props, says) in [
        (
            "missing",
            serde_json::json!({"env_file": "/nowhere/x.env"}),
            "props.env_file: /nowhere/x.env: there is no such file on this machine".to_owned(),
        ),
        (
            "bad",
            serde_json::json!({"env_file": bad}),
            format!("props.env_file: {bad}: line 2: has no '='; write it like NAME=VALUE"),
        ),
        (
            "folder",
            serde_json::json!({"env_from_file": {"TOKEN": folder}}),
            format!("props.env_from_file.TOKEN: {folder}: is not a regular file"),
        ),
        (
            "nul",
            serde_json::json!({"env_from_file": {"TOKEN": nul}}),
            format!("props.env_from_file.TOKEN: {nul}: has a NUL"),
        ),
    ] {
        let mut props = props;
        props["command"] = "true".into();
        let props = props.to_string();
        env.run(&["submit", "exec", "--id", id, "--props", &props])
            .ok();
        let ran = worked(&env);
        let got = env.json(&["get", id]);
        assert_eq!(got["state"], "failed", "{got}");
        assert!(got.to_string().contains(&says), "{says}: {got}");
        assert!(!got.to_string().contains(SECRET) && !ran.err.contains(SECRET));
    }
}

#[test]
fn each_attempt_reads_the_file_again() {
    let env = Env::new();
    let file = private(&env, "command.env", "A=1\n");
    let props = serde_json::json!({
        "shell": format!("[ $A = 2 ] || {{ echo A=2 > {file}; exit 1; }}"),
        "env_file": file,
    });
    let retry = r#"{"policy":"exponential","attempts":2,"base":"1ms"}"#;
    let props = props.to_string();
    env.run(&[
        "submit", "exec", "--id", "a", "--retry", retry, "--props", &props,
    ])
    .ok();
    worked(&env);
    assert_eq!(env.json(&["get", "a"])["state"], "completed");
}

#[test]
fn a_file_that_others_can_read_is_warned_of_once() {
    let env = Env::new();
    let file = env.write("open.env", "A=1\n");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    for id in ["a", "b"] {
        let props = "{\"command\":\"true\"}";
        env.run(&[
            "submit",
            "exec",
            "--id",
            id,
            "--props",
            props,
            "--env-file",
            &file,
        ])
        .ok();
    }
    let ran = worked(&env);
    let warned = ran
        .err
        .matches("other users of this machine can read")
        .count();
    assert_eq!(warned, 1, "{ran:?}");
}

#[test]
fn the_commands_of_a_run_find_variables_too() {
    let env = Env::new();
    let file = private(&env, "command.env", "A=from-a-file\n");
    let words = [
        "run",
        "--each",
        "echo $A",
        "--shell",
        "--env-file",
        &file,
        "--print-output",
    ];
    let ran = env.run_with(&words, "x\n").ok();
    assert!(ran.out.contains("from-a-file"), "{ran:?}");
}

#[test]
fn a_hint_is_given_for_what_only_a_shell_reads() {
    let env = Env::new();
    let submitted = |props: &str| env.run(&["submit", "exec", "--props", props]).ok().err;
    let piped = submitted(r#"{"command":"ls","args":["|","wc"]}"#);
    assert!(
        piped.contains("note: '|' is an argument of 'ls'"),
        "{piped}"
    );
    let plain = submitted(r#"{"command":"ls","args":["-l"]}"#);
    assert!(!plain.contains("shell"), "{plain}");
    let line = r#"{"command":"ls -l | wc"}"#;
    env.run(&["submit", "exec", "--id", "line", "--props", line])
        .ok();
    worked(&env);
    let got = env.json(&["get", "line"]);
    let hint = "'command' is the name of one program: put its arguments into 'args'";
    assert!(got.to_string().contains(hint), "{got}");
    let ran = env
        .run_with(&["run", "--each", "echo {} > /dev/null"], "x\n")
        .ok();
    assert!(
        ran.err
            .contains("note: '>' in --each goes to the command as it is"),
        "{ran:?}"
    );
}
