//! `windlass config`, and what the configuration file may hold.

use serde_json::Value;

use crate::env::Env;

/// The settings as JSON: with these variables, without `WINDLASS_STORE` if it is not among them.
fn shown(env: &Env, vars: &[(&str, &str)], words: &[&str]) -> Vec<Value> {
    let mut command = env.command();
    command
        .env_remove("WINDLASS_STORE")
        .env("HOME", env.path("home"));
    command.env("XDG_DATA_HOME", env.path("data"));
    command.envs(vars.iter().copied());
    let output = command.args(words).args(["config", "-o", "json"]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

fn of<'a>(settings: &'a [Value], table: Option<&str>, name: &str) -> &'a Value {
    let mut found = settings.iter();
    let found = found.find(|s| s["table"].as_str() == table && s["setting"] == name);
    found
        .ok_or_else(|| format!("{name}: {settings:?}"))
        .unwrap()
}

/// Regression: such values were accepted: `config` showed them, and the error of the worker that
/// read them named an option.
#[test]
fn a_value_that_the_option_rejects_is_named_with_its_file_and_line() {
    let env = Env::new();
    for (text, says) in [
        ("[worker]\nslots = 0", "slots: 0 is not from 1 to 1000000"),
        (
            "[worker]\nslots = \"many\"",
            "slots: 'many' is not a number",
        ),
        ("[run]\njobs = 0", "jobs: 0 is not from 1 to 1000000"),
        (
            "[worker]\nlease-ttl = \"0s\"",
            "lease-ttl: 0s is not from 200ms to 1h",
        ),
        (
            "[run]\nlease-ttl = \"2h\"",
            "lease-ttl: 2h is not from 200ms",
        ),
        ("[worker]\nname = \"a/b\"", "name: "),
        ("[worker]\nretry = \"0\"", "retry: "),
    ] {
        let file = env.write("settings.toml", text);
        for command in ["config", "worker"] {
            let ran = env.run(&["--config", &file, command, "-q"]);
            let ran = ran.fails(2, &["config: ", "settings.toml line 2: ", says]);
            assert!(!ran.err.contains("--slots"), "{ran:?}");
        }
    }
}

#[test]
fn config_shows_every_default() {
    let env = Env::new();
    let default = format!("sqlite:{}", env.path("data/windlass/windlass.db"));
    let settings = shown(&env, &[], &[]);
    let store = of(&settings, None, "store");
    assert_eq!(store["values"][0], default.as_str());
    assert_eq!(store["source"], "default");
    for (table, name, value) in [
        ("worker", "log-limit", "64MiB"),
        ("run", "log-limit", "64MiB"),
        ("worker", "retry", "exponential"),
        ("run", "retry", "abandoned"),
    ] {
        let setting = of(&settings, Some(table), name);
        assert_eq!(setting["values"][0], value, "{table}.{name}");
        assert_eq!(setting["source"], "default");
    }
    // Every other command rejects an empty variable.
    let settings = shown(&env, &[("WINDLASS_STORE", "")], &[]);
    let store = of(&settings, None, "store");
    let text = store["values"][0].as_str().unwrap();
    assert!(text.contains("empty, which is not a store"), "{text}");
    assert_eq!(store["source"], "environment");
    let file = env.write("settings.toml", "[run]\nretry = \"3\"\n");
    let settings = shown(&env, &[], &["--config", &file]);
    let used = of(&settings, None, "config");
    assert_eq!(used["values"][0], file.as_str());
    assert_eq!(of(&settings, Some("run"), "retry")["values"][0], "3");
}

/// Regression: only a user and a password before the host were recognized.
#[test]
fn a_password_in_the_query_of_a_store_is_neither_printed_nor_accepted() {
    let env = Env::new();
    let url = "etcd://h:1/ns?user=a&password=secret";
    let settings = shown(&env, &[("WINDLASS_STORE", url)], &[]);
    let store = of(&settings, None, "store").to_string();
    assert!(store.contains("not printed") && !store.contains("secret"));
    let file = env.write("settings.toml", &format!("store = \"{url}\""));
    let ran = env.run(&["--config", &file, "list"]);
    let ran = ran.fails(2, &["settings.toml line 1: store: holds a password"]);
    assert!(!ran.err.contains("secret"), "{ran:?}");
}

/// Regression: it was rejected, although the file may also name the command that it belongs to.
#[test]
fn the_file_may_say_that_the_command_of_each_line_is_a_script() {
    let env = Env::new();
    let file = env.write(
        "settings.toml",
        "[run]\nshell = true\neach = \"echo {} | tr a b\"\n",
    );
    let run = ["--config", &file, "run", "--print-output"];
    let ran = env.run_with(&run, "a\n").ok();
    assert!(ran.out.contains('b'), "{ran:?}");
    // Without a command for each line it has no effect.
    let file = env.write("settings.toml", "[run]\nshell = true\n");
    let run = ["--config", &file, "run"];
    env.run_with(&run, "{\"command\":\"true\"}\n").ok();
}
