//! The environment of the commands of a worker, and what an error prints of it.

use std::fs;

use serde_json::json;

use super::submit;
use crate::live::Place;

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

/// A test runner reads a pipe until its last writer has closed it, and a script holds a lock by an open file.
#[test]
fn a_command_has_no_file_of_the_caller_but_those_that_inherit_fd_names() {
    let place = Place::new();
    let windlass = |script: &str, args: &[&str]| {
        let mut shell = std::process::Command::new("sh");
        let program = place.windlass(&[]);
        shell.args(["-c", &format!("{script} exec \"$@\""), "sh"]);
        shell.arg(program.get_program()).args(args);
        shell.current_dir(place.path(""));
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        shell.stdin(std::process::Stdio::null());
        let out = shell.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            out.status.code().unwrap(),
            text(out.stdout),
            text(out.stderr),
        )
    };
    // `ls` itself opens the folder.
    let shell =
        "for n in /proc/$$/fd/*; do case ${n##*/} in [012]) ;; *) readlink $n;; esac; done; true";
    let files = "exec 3>three 7>seven 8>last 9<&0;";
    let path = |name| place.path(name).to_string_lossy().into_owned();
    for (node, named) in [
        (&["worker", "--until-idle"][..], false),
        (&["run", "--print-output", "lines"], false),
        (&["worker", "--until-idle"], true),
        (&["run", "--again", "--print-output", "lines"], true),
    ] {
        let id = format!("{}-{named}", node[0]);
        let props = json!({ "shell": shell });
        match node[0] {
            "run" => drop(place.write("lines", &format!("{props}\n"))),
            _ => submit(&place, &id, &props),
        }
        let inherit = ["--inherit-fd", "7", "--inherit-fd", "8"];
        let inherit = if named { &inherit[..] } else { &[] };
        let (code, out, err) = windlass(files, &[node, inherit].concat());
        assert_eq!(code, 0, "{err}");
        let out = match node[0] {
            "run" => out,
            _ => place.run(&["logs", &id]).1,
        };
        let mut got: Vec<&str> = out.lines().collect();
        got.sort_unstable();
        let want = match named {
            true => vec![path("last"), path("seven")],
            false => Vec::new(),
        };
        assert_eq!(got, want, "{id}: {err}");
    }
    // The file of the lines is one of the caller's, and keeps its number.
    let read = ["run", "--again", "--print-output", "/dev/fd/8"];
    let (code, out, err) = windlass("exec 8<lines;", &read);
    assert_eq!((code, out.as_str()), (0, ""), "{err}");
    for (number, says) in [
        (
            "7",
            "--inherit-fd 7: the caller has no file open at this number",
        ),
        ("2", "give a number from 3"),
        ("x", "give one from 3"),
    ] {
        let (code, _, err) = windlass("", &["worker", "--until-idle", "--inherit-fd", number]);
        assert!(code == 2 && err.contains(says), "{err}");
    }
}
