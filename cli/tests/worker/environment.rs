//! The environment of the commands of a worker, and what an error prints of it.

use std::fs;

use serde_json::json;

use crate::{live::Place, submit};

/// What the command prints is kept in its result.
#[test]
fn a_command_inherits_none_of_the_configuration_of_windlass() {
    let place = Place::new();
    let props = json!({"command": "env", "env": {"WINDLASS_LOG": "of the task"}});
    for (id, own_store) in [("a", true), ("b", false)] {
        submit(&place, id, &props);
        let mut worker = place.windlass(&["worker", "--until-idle"]);
        for name in [
            "ETCD_USER",
            "ETCD_PASSWORD",
            "ETCD_PASSWORD_FILE",
            "ETCD_KEY",
            "OTHER",
        ] {
            worker.env(format!("WINDLASS_{name}"), "secret");
        }
        worker
            .env("WINDLASS_LOG", "error")
            .env("OF_THE_USER", "kept");
        if !own_store {
            worker.env("WINDLASS_STORE", "etcd://user:secret@host:2379/ns");
            worker.args(["--store", &place.store()]);
        }
        assert!(worker.status().unwrap().success());
        let (_, out, _) = place.run(&["logs", id]);
        let mut own: Vec<&str> = out
            .lines()
            .filter(|line| line.starts_with("WINDLASS_"))
            .collect();
        own.sort_unstable();
        let names: Vec<&str> = own
            .iter()
            .filter_map(|l| Some(l.split_once('=')?.0))
            .collect();
        let set = [
            "ATTEMPT",
            "FENCE",
            "INCARNATION",
            "LOG",
            "STATE_DIR",
            "STORE",
            "TASK_ID",
            "TASK_KEY",
            "TASK_SOCKET",
        ];
        let set = set.iter().map(|name| format!("WINDLASS_{name}"));
        assert_eq!(names, set.collect::<Vec<_>>(), "{out}");
        let store = format!("WINDLASS_STORE={}", place.store());
        assert!(own.contains(&store.as_str()), "{out}");
        assert!(own.contains(&"WINDLASS_LOG=of the task"), "{out}");
        assert!(
            out.contains("OF_THE_USER=kept") && !out.contains("secret"),
            "{out}"
        );
    }
}

#[test]
fn a_command_submits_to_the_store_of_its_worker_whatever_names_it() {
    let place = Place::new();
    fs::create_dir(place.path("other")).unwrap();
    place.write("config.toml", "store = \"sqlite:s.db\"\n");
    let child = "echo $WINDLASS_STORE; \"$PROGRAM\" submit exec --id \"$CHILD\" --props '{\"command\":\"true\"}'";
    let windlass = |how: &str, args: &[&str]| {
        let mut windlass = place.windlass(&[]);
        windlass.env_remove("WINDLASS_STORE");
        match how {
            "variable" => windlass.env("WINDLASS_STORE", "sqlite:s.db"),
            "option" => windlass.args(["--store", "sqlite:s.db?synchronous=normal"]),
            "file" => windlass.args(["--config", "config.toml"]),
            // In the data directory.
            _ => &mut windlass,
        };
        let out = windlass.args(args).output().unwrap();
        let text = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{how} {args:?}: {text}");
        String::from_utf8(out.stdout).unwrap()
    };
    for how in ["variable", "option", "file", "default"] {
        let name = format!("child-of-{how}");
        let props = json!({
            "shell": child,
            "cwd": place.path("other"),
            "env": {"PROGRAM": env!("CARGO_BIN_EXE_windlass"), "CHILD": name},
        });
        let props = props.to_string();
        windlass(how, &["submit", "exec", "--id", how, "--props", &props]);
        windlass(how, &["worker", "--until-idle", "--retry", "never"]);
        let url = windlass(how, &["logs", how]);
        assert!(url.contains("sqlite:/"), "{how}: {url}");
        assert_eq!(url.contains("?synchronous=normal"), how == "option");
        windlass(how, &["get", &name]);
        assert_eq!(fs::read_dir(place.path("other")).unwrap().count(), 0);
    }
    // A variable of the task takes precedence.
    let props = json!({"shell": "echo $WINDLASS_STORE", "env": {"WINDLASS_STORE": "its own"}});
    submit(&place, "own", &props);
    windlass("variable", &["worker", "--until-idle"]);
    assert_eq!(windlass("variable", &["logs", "own"]), "its own\n");
    // No other process has this store.
    let args = [
        "--store",
        "memory:",
        "run",
        "--shell",
        "--each",
        "echo [$WINDLASS_STORE] {}",
    ];
    let args = [&args[..], &["--print-output", "lines"]].concat();
    place.write("lines", "x\n");
    assert_eq!(place.run(&args).1, "[] x\n");
}

#[test]
fn an_error_does_not_print_the_password_in_a_url() {
    let place = Place::new();
    for url in [
        "etcd://user:secret@h:1/ns",
        "redis://user:secret@h:1/ns",
        "etcd:/user:secret@h",
    ] {
        for args in [
            &["list"][..],
            &["worker"],
            &["run", "/dev/null"],
            &["doctor"],
        ] {
            let args = [&["--store", url], args].concat();
            let (code, out, err) = place.run(&args);
            assert!(code == 2 || code == 4, "{args:?}: {code} {err}");
            assert!(
                !err.contains("secret") && !out.contains("secret"),
                "{args:?}: {err}"
            );
        }
    }
}
