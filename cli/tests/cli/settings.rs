//! The configuration file, and the format of the log.

use serde_json::Value;

use crate::env::{Env, Ran};

pub(crate) fn ran(env: &Env, vars: &[(&str, &str)], words: &[&str]) -> Ran {
    let mut command = env.command();
    command.envs(vars.iter().copied()).args(words);
    let output = command.output().unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn an_option_stands_above_the_environment_and_that_above_the_file() {
    let env = Env::new();
    let url = |name: &str| format!("sqlite:{}", env.path(name));
    let file = env.write(
        "settings.toml",
        &format!("store = \"{}\"\n", url("file.db")),
    );
    let submitted_to = |vars: &[(&str, &str)], words: &[&str]| {
        let mut command = env.command();
        command
            .env_remove("WINDLASS_STORE")
            .envs(vars.iter().copied());
        let words = [words, &["submit", "k"]].concat();
        let output = command.args(words).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let made = ["file.db", "variable.db", "option.db"].into_iter();
        let made = made.filter(|name| std::fs::remove_file(env.path(name)).is_ok());
        made.collect::<Vec<_>>()
    };
    let variable = url("variable.db");
    let vars = [("WINDLASS_STORE", variable.as_str())];
    let config = ["--config", file.as_str()];
    assert_eq!(submitted_to(&[], &config), ["file.db"]);
    assert_eq!(submitted_to(&vars, &config), ["variable.db"]);
    let option = url("option.db");
    let words = [&config[..], &["--store", &option]].concat();
    assert_eq!(submitted_to(&vars, &words), ["option.db"]);
    // The file can be named by the environment, too.
    let named = [("WINDLASS_CONFIG", file.as_str())];
    assert_eq!(submitted_to(&named, &[]), ["file.db"]);
}

#[test]
fn the_default_file_is_in_the_configuration_directory() {
    let env = Env::new();
    std::fs::create_dir_all(env.path("config/windlass")).unwrap();
    env.write("config/windlass/config.toml", "output = \"json\"\n");
    env.run(&["submit", "k", "--id", "a"]).ok();
    assert_eq!(env.run(&["get", "a"]).ok().lines()[0]["id"], "a");
    // An empty variable is not a file.
    let ran = ran(&env, &[("WINDLASS_CONFIG", "")], &["get", "a"]).ok();
    assert!(serde_json::from_str::<Value>(&ran.out).is_err(), "{ran:?}");
}

#[test]
fn commands_have_tables_of_their_own() {
    let env = Env::new();
    env.run(&[
        "submit",
        "exec",
        "--id",
        "a",
        "--props",
        "{\"command\":\"true\"}",
    ])
    .ok();
    let file = env.write(
        "settings.toml",
        "log-format = \"json\"\n[worker]\nname = \"from-file\"\nslots = 3\nuntil-idle = true\n\
         select = []\n[run]\njobs = 2\n",
    );
    let ran = env.run(&["--config", &file, "worker"]).ok();
    let lines: Vec<Value> = ran
        .err
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let working = lines.iter().find(|l| l["message"] == "working").unwrap();
    assert_eq!(working["slots"], 3, "{ran:?}");
    assert_eq!(working["node"], "from-file", "{ran:?}");
    assert_eq!(env.json(&["get", "a"])["state"], "completed");
}

#[test]
fn what_is_no_setting_is_named_with_its_file_and_line() {
    let env = Env::new();
    for (text, says) in [
        (
            "stroe = \"x\"",
            "line 1: 'stroe' is not a setting; write 'store'",
        ),
        (
            "\n[worker]\nslot = 3",
            "line 3: 'slot' is not a setting; write 'slots'",
        ),
        ("[worker]\nslots = \"many\"", "line 2: slots: "),
        // The option belongs to --each: in a file it would make reading a file of tasks impossible.
        (
            "[run]\nnull = true",
            "line 2: 'null' is for one call only; give --null",
        ),
        (
            "[worker]\nslots = true",
            "line 2: slots: is not text or a number",
        ),
        (
            "[worker]\nuntil-idle = 1",
            "line 2: until-idle: is not true or false",
        ),
        (
            "[worker]\nslots = [1]",
            "line 2: slots: is an array; give one value",
        ),
        (
            "[worker]\nlease-ttl = \"soon\"",
            "'soon' is not a duration; write it like 90s",
        ),
        (
            "color = \"blue\"",
            "line 1: color: is not one of auto, always, never",
        ),
        (
            "slots = 3",
            "line 1: 'slots' is a setting of a command; write it below [worker]",
        ),
        (
            "[worker]\ncolor = \"never\"",
            "line 2: 'color' is a setting of all commands; write it above the first table",
        ),
        (
            "quiet = true",
            "line 1: 'quiet' is for one call only; give --quiet",
        ),
        (
            "[wroker]\n",
            "line 1: [wroker] is not a table of settings; write [worker]",
        ),
        (
            "[delete]\nyes = true",
            "line 1: [delete] is not a table of settings; the tables are worker and run",
        ),
        ("store = ", "line 1: is not TOML: "),
        (
            "store = \"etcd://user:secret@host:2379/ns\"",
            "line 1: store: holds a password, which this file may not",
        ),
    ] {
        let file = env.write("settings.toml", text);
        let ran = env.run(&["--config", &file, "list"]);
        let ran = ran.fails(2, &["config: ", "settings.toml line ", says]);
        assert!(!ran.err.contains("secret"), "{ran:?}");
        assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
    }
    let ran = env.run(&["--config", "/nowhere/x.toml", "list"]);
    ran.fails(2, &["config: could not read /nowhere/x.toml"]);
}

#[test]
fn a_log_in_json_has_one_object_a_line() {
    let env = Env::new();
    let retry = r#"{"policy":"exponential","attempts":2,"base":"1ms"}"#;
    let props = r#"{"shell":"echo a line >&2; exit 3"}"#;
    env.run(&[
        "submit", "exec", "--id", "a", "--retry", retry, "--props", props,
    ])
    .ok();
    let vars = [("WINDLASS_LOG_FORMAT", "json")];
    let ran = ran(&env, &vars, &["worker", "--until-idle"]).ok();
    let lines: Vec<Value> = ran
        .err
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for line in &lines {
        let time = line["timestamp"].as_str().unwrap();
        assert!(time.parse::<jiff::Timestamp>().is_ok(), "{line}");
        assert!(
            line["level"].is_string() && line["message"].is_string(),
            "{line}"
        );
        assert!(
            line["target"].as_str().unwrap().starts_with("windlass"),
            "{line}"
        );
    }
    let failed = lines.iter().find(|l| l["level"] == "WARN").unwrap();
    assert!(failed.to_string().contains("exit code 3"), "{failed}");
}

#[test]
fn an_error_that_ends_a_program_with_a_log_in_json_is_json_too() {
    let env = Env::new();
    let ran = env.run(&["--log-format", "json", "get", "a"]).code(4);
    let line: Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!(line["level"], "ERROR");
    assert!(
        line["message"]
            .as_str()
            .unwrap()
            .contains("there is no file"),
        "{line}"
    );
}

/// Regression: readers of JSON keep the last of two values with one name, so the text of the event was
/// lost.
#[test]
fn no_event_in_json_has_two_messages() {
    let env = Env::new();
    let ran = env
        .run_with(
            &["-vv", "--log-format", "json", "run", "--each", "true"],
            "a\n",
        )
        .code(0);
    let events = ran.err.lines().filter(|line| line.starts_with('{'));
    let mut returned = 0;
    for event in events {
        assert_eq!(event.matches("\"message\":").count(), 1, "{event}");
        returned += usize::from(event.contains("\"returned\":"));
    }
    assert!(returned > 0, "the event that had two: {}", ran.err);
}

#[test]
fn config_shows_each_value_and_where_it_comes_from() {
    let env = Env::new();
    let file = env.write(
        "settings.toml",
        "output = \"json\"\nstore = \"sqlite:relative.db\"\n[worker]\nslots = 3\n",
    );
    let mut command = env.command();
    command
        .env_remove("WINDLASS_STORE")
        .env("WINDLASS_ETCD_PASSWORD", "secret");
    let output = command
        .args(["--config", &file, "config", "--color", "never"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("secret"), "{text}");
    let settings: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |table: Option<&str>, name: &str| {
        let found = settings
            .iter()
            .find(|s| s["table"].as_str() == table && s["setting"] == name);
        let found = found.unwrap_or_else(|| panic!("{name}: {text}"));
        (
            found["values"][0].as_str().map(str::to_owned),
            found["source"].as_str().unwrap(),
        )
    };
    let value = |text: &str| Some(text.to_owned());
    assert_eq!(of(None, "output"), (value("json"), "file"));
    assert_eq!(of(None, "color"), (value("never"), "flag"));
    assert_eq!(of(None, "log-format"), (value("text"), "default"));
    // Not of the working folder.
    let store = format!("sqlite:{}", env.path("relative.db"));
    assert_eq!(of(None, "store"), (Some(store), "file"));
    assert_eq!(of(Some("worker"), "slots"), (value("3"), "file"));
    assert_eq!(of(Some("worker"), "lease-ttl"), (value("15s"), "default"));
    assert_eq!(of(Some("run"), "jobs").1, "default");
    let secret = value("(not printed: it holds a password)");
    assert_eq!(of(None, "WINDLASS_ETCD_PASSWORD"), (secret, "environment"));
    let vars = [("WINDLASS_STORE", "etcd://me:pw@host/ns")];
    let shown = ran(&env, &vars, &["config"]).ok().out;
    assert!(
        shown.contains("WINDLASS_STORE") && !shown.contains("pw@"),
        "{shown}"
    );
}

#[test]
fn a_flag_of_the_file_can_be_turned_off() {
    let env = Env::new();
    let file = env.write("settings.toml", "[run]\nfail-fast = true\n");
    env.write("lines", "1\n2\n");
    // The second command may have started when the run notices the failure, and is ended then.
    let fails = env.write("fails", "test \"$1\" = 1 && exit 1\nexec sleep 600\n");
    let first = format!("sh {fails} {{}}");
    let run = |each: &str, words: &[&str]| {
        let all = ["--config", &file, "run", "-j", "1", "--each", each];
        let input = env.path("lines");
        let all = [&all[..], words, &[input.as_str()]].concat();
        ran(&env, &[], &all).err
    };
    let on = run(&first, &["--batch", "a"]);
    assert!(on.contains("1 left for another run"), "{on}");
    let off = run("false {}", &["--batch", "b", "--fail-fast=false"]);
    assert!(off.contains("2 failed"), "{off}");
}
