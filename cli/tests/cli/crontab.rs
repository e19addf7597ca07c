//! `schedule import`: schedules from a crontab.

use serde_json::json;

use crate::{env::Env, settings::ran};

#[test]
fn a_crontab_is_imported_once() {
    let env = Env::new();
    let crontab =
        "MAILTO=me\nCRON_TZ=Europe/Berlin\n30 2 * * * echo a%b\n@reboot start\n@hourly backup\n";
    let file = env.write("crontab", crontab);
    let ran = env.run(&["schedule", "import", &file, "--dry-run"]).ok();
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(
        lines.len(),
        1 + 2 * 3 + 1,
        "a header, three times of each line, and one of @reboot: {ran:?}"
    );
    let starts = "@reboot     at each start of a machine";
    assert!(ran.out.contains(starts), "{ran:?}");
    assert!(lines[0].starts_with("ID "), "{ran:?}");
    assert!(lines[1].contains("would create  30 2 * * *"), "{ran:?}");
    assert!(lines[1].contains(" Europe/Berlin"), "{ran:?}");
    assert!(lines[1].ends_with("  echo a"), "{ran:?}");
    assert!(
        lines[2].starts_with("  ") && lines[2].contains(":30:00 +0"),
        "{ran:?}"
    );
    assert!(ran.err.contains("line 1: mail is not sent"), "{ran:?}");
    let imported = env
        .run(&["schedule", "import", &file, "-o", "json"])
        .ok()
        .lines();
    assert_eq!(imported[0]["action"], "created");
    assert_eq!(
        imported[0]["spec"]["run"]["props"],
        json!({"shell": "echo a", "stdin": "b\n"})
    );
    assert_eq!(imported[0]["spec"]["zone"], "Europe/Berlin");
    let again = env
        .run(&["schedule", "import", &file, "-o", "json"])
        .ok()
        .lines();
    assert_eq!(again[0]["action"], "exists");
    // With other options: what is printed is what is stored.
    let words = [
        "schedule",
        "import",
        &file,
        "--overlap",
        "kill",
        "-o",
        "json",
    ];
    for more in [&[][..], &["--dry-run"]] {
        let ran = env.run(&[&words[..], more].concat()).ok();
        assert!(ran.err.contains("keeps its zone and options"), "{ran:?}");
        let again = ran.lines();
        assert_eq!(again[0]["action"], "exists");
        assert!(again[0]["spec"]["overlap"].is_null(), "{ran:?}");
    }
    assert_eq!(env.json(&["schedule", "list"]).as_array().unwrap().len(), 3);
}

#[test]
fn an_import_is_whole_or_nothing_and_its_errors_are_in_the_order_of_the_lines() {
    let env = Env::new();
    let lines = "61 * * * * ls\n* * * *\n0 0 * * * ls\n0 0 30 2 * ls\n";
    let wrong = env.write("wrong", lines);
    for more in [&[][..], &["--dry-run"]] {
        let ran = env
            .run(&[&["schedule", "import", &wrong], more].concat())
            .code(2);
        let errors: Vec<&str> = ran.err.lines().collect();
        let says = [
            "error: line 1: cron: '61 * * * *'",
            "error: line 2: '* * * *' has no command",
            "error: line 4: cron: '0 0 30 2 *' never comes",
            "error: 3 lines are wrong; nothing was imported",
        ];
        assert_eq!(errors.len(), says.len(), "{ran:?}");
        assert!(
            errors
                .iter()
                .zip(says)
                .all(|(error, says)| error.starts_with(says)),
            "{ran:?}"
        );
        assert_eq!(ran.out, "");
    }
    assert!(!std::path::Path::new(&env.path("store.db")).exists());
    // A line whose id another task has also stops the other lines.
    let crontab = env.write("crontab", "0 1 * * * one\n0 2 * * * two\n");
    let dry = env
        .run(&["schedule", "import", &crontab, "--dry-run", "-o", "json"])
        .ok();
    let id = dry.lines()[1]["id"].as_str().unwrap().to_owned();
    env.run(&["submit", "k", "--id", &id, "--in", "1h"]).ok();
    let ran = env.run(&["schedule", "import", &crontab]).code(2);
    assert!(ran.err.contains("line 2: "), "{ran:?}");
    assert!(
        ran.err.contains("is a task of kind 'k', not a schedule"),
        "{ran:?}"
    );
    assert_eq!(env.json(&["schedule", "list"]), json!([]));
    // The same line twice is one schedule.
    let twice = env.write("twice", "0 3 * * * three\n\n0 3 * * * three\n");
    let ran = env.run(&["schedule", "import", &twice]).ok();
    assert!(ran.err.contains("line 3 is the same as line 1"), "{ran:?}");
    assert_eq!(
        ran.out.matches("three").count(),
        2,
        "its id and its command: {ran:?}"
    );
}

#[test]
fn an_import_notes_what_is_no_longer_in_the_crontab() {
    let env = Env::new();
    let crontab = |text: &str| env.write("crontab", text);
    let import = |file: &str| env.run(&["schedule", "import", file, "-o", "json"]).ok();
    let first = import(&crontab("0 1 * * * one\n0 2 * * * two\n"));
    assert!(!first.err.contains("no longer"), "{first:?}");
    let id = |ran: &crate::env::Ran, at: usize| ran.lines()[at]["id"].as_str().unwrap().to_owned();
    // A line that was changed, and one that was removed; other crontabs do not count.
    import(&env.write("other", "0 9 * * * other\n"));
    let changed = crontab("0 6 * * * one\n");
    for _ in 0..2 {
        let ran = import(&changed);
        assert_eq!(id(&ran, 0), id(&first, 0), "the changed line");
        let gone = id(&first, 1);
        let says = format!(
            "note: '{gone}' is no longer in this crontab, from which it was imported, and still runs"
        );
        assert!(ran.err.contains(&says), "{ran:?}");
        let delete = format!("windlass schedule delete {gone}`");
        assert!(ran.err.contains(&delete), "{ran:?}");
        assert_eq!(ran.err.matches("no longer").count(), 1, "{ran:?}");
    }
    env.run(&["schedule", "delete", &id(&first, 1)]).ok();
    assert!(!import(&changed).err.contains("no longer"));
    // Standard input is a crontab, too.
    let words = ["schedule", "import", "-"];
    env.run_with(&words, "0 4 * * * four\n").ok();
    let ran = env.run_with(&words, "0 5 * * * five\n").ok();
    assert_eq!(ran.err.matches("no longer").count(), 1, "{ran:?}");
}

/// Regression: the lines of `/etc/crontab` were imported with `root` as the program.
#[test]
fn a_crontab_with_a_column_for_the_user_needs_an_option() {
    let env = Env::new();
    let file = env.write("crontab", "17 * * * * root run-parts /etc/cron.hourly\n");
    for more in [&[][..], &["--dry-run"]] {
        env.run(&[&["schedule", "import", &file], more].concat())
            .fails(
                2,
                &["line 1: 'root' is the name of a user", "--user-column"],
            );
    }
    assert!(!std::path::Path::new(&env.path("store.db")).exists());
    env.run(&["schedule", "import", "/etc/crontab"])
        .fails(2, &["give --user-column"]);
    let words = ["schedule", "import", &file, "--user-column", "-o", "json"];
    let ran = env.run(&words).ok();
    let props = &ran.lines()[0]["spec"]["run"]["props"];
    assert_eq!(props, &json!({"shell": "run-parts /etc/cron.hourly"}));
    assert!(
        ran.err
            .contains("(root) is left out: a command runs as the user of its worker"),
        "{ran:?}"
    );
}

/// Regression: a line without a user lost its first word without a report.
#[test]
fn a_line_without_its_user_is_refused_and_loses_no_word() {
    let env = Env::new();
    let text = "0 1 * * * root backup --all\n0 2 * * * tar czf /tmp/a.tgz /a\n0 3 * * * app-of-web-1 sync\n";
    let file = env.write("crontab", text);
    let words = ["schedule", "import", &file, "--user-column"];
    for more in [&[][..], &["--dry-run"]] {
        let says = [
            "line 2: 'tar' is not a user of this machine",
            "write the user before the command, like '30 2 * * * root backup'",
            "line 3: 'app-of-web-1' is not a user of this machine",
            "give --user app-of-web-1 if",
            "2 lines are wrong; nothing was imported",
        ];
        let ran = env.run(&[&words[..], more].concat()).code(2);
        for text in says {
            assert!(ran.err.contains(text), "{text} is not in {ran:?}");
        }
    }
    env.write("crontab", &text.replace("tar ", "root tar "));
    let named = [&words[..], &["--user", "app-of-web-1", "-o", "json"]].concat();
    let imported = env.run(&named).ok().lines();
    let commands: Vec<_> = imported
        .iter()
        .map(|line| line["spec"]["run"]["props"]["shell"].clone())
        .collect();
    assert_eq!(commands, ["backup --all", "tar czf /tmp/a.tgz /a", "sync"]);
    env.run(&["schedule", "import", &file, "--user", "x"])
        .fails(2, &["--user-column"]);
}

/// Regression: only a user before a program or a path was noticed, and the user became the program of every other line.
#[test]
fn a_user_before_any_command_needs_an_option_and_an_unknown_first_word_a_note() {
    let env = Env::new();
    let words = ["schedule", "import", "-", "--dry-run"];
    for command in [
        "FOO=1 /bin/true",
        "( cd /tmp; ls )",
        "~/bin/x",
        "no-such -a",
    ] {
        env.run_with(&words, &format!("0 0 * * * nobody {command}\n"))
            .fails(
                2,
                &["line 1: 'nobody' is the name of a user", "--user-column"],
            );
    }
    let text =
        "0 0 * * * no-such x\n0 1 * * * no-such y\n0 2 * * * cd / && ls\n0 3 * * * nobody --all\n";
    let ran = env.run_with(&words, text).ok();
    let notes: Vec<&str> = (ran.err.lines())
        .filter(|line| line.contains("is no program in PATH"))
        .collect();
    let [first, second] = notes[..] else {
        panic!("one note of each word: {ran:?}");
    };
    assert!(
        first.contains("line 1: 'no-such'") && first.contains("--user-column"),
        "{ran:?}"
    );
    assert!(second.contains("line 4: 'nobody'"), "{ran:?}");
}

/// Regression: an edited line became a second schedule, and both fired.
#[test]
fn an_import_updates_the_schedules_of_edited_lines() {
    let env = Env::new();
    let import = |text: &str| {
        let file = env.write("crontab", text);
        let ran = env.run(&["schedule", "import", &file, "-o", "json"]).ok();
        let lines = ran.lines();
        let of = |line: &serde_json::Value| {
            let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
            let (spec, id) = (&line["spec"], text(&line["id"]));
            (
                id,
                text(&line["action"]),
                text(&spec["cron"][0]),
                text(&spec["run"]["props"]["shell"]),
            )
        };
        lines.iter().map(of).collect::<Vec<_>>()
    };
    let first = import(
        "# name: nightly\n0 1 * * * backup --all\n0 2 * * * report\n0 3 * * * report\n@daily other -x\n",
    );
    let ids: Vec<&str> = first.iter().map(|line| line.0.as_str()).collect();
    assert_eq!(ids[0], "nightly");
    assert!(ids[1].starts_with("cron-report-"), "{ids:?}");
    assert_eq!(ids[2], format!("{}-2", ids[1]));
    // Times, a command, the place of a line and a new line above.
    let edited = import(
        "@hourly new\n# name: nightly\n30 1 * * * backup --most\n0 2 * * * report\n15 3 * * * report\n@daily other -y\n",
    );
    let of = |n: usize| {
        (
            edited[n].0.as_str(),
            edited[n].1.as_str(),
            edited[n].3.as_str(),
        )
    };
    assert_eq!((of(0).1, of(0).2), ("created", "new"));
    assert_eq!(of(1), ("nightly", "updated", "backup --most"));
    assert_eq!((of(2).0, of(2).1), (ids[1], "exists"));
    assert_eq!(of(3), (ids[2], "updated", "report"));
    assert_eq!(of(4), (ids[3], "updated", "other -y"));
    assert_eq!(edited[3].2, "15 3 * * *");
    assert_eq!(env.json(&["schedule", "list"]).as_array().unwrap().len(), 5);
    // What an operator has set besides stays.
    env.run(&["schedule", "update", "nightly", "--overlap", "kill"])
        .ok();
    import("# name: nightly\n0 4 * * * backup --most\n");
    let stored = env.json(&["schedule", "get", "nightly"]);
    assert_eq!(stored["spec"]["cron"], json!(["0 4 * * *"]));
    assert_eq!(stored["spec"]["overlap"], "kill");
    // A name that a schedule of another origin has.
    let other = env.write("other", "# name: nightly\n0 5 * * * else\n");
    let ran = env.run(&["schedule", "import", &other]).code(2);
    for text in ["error: line 2: schedule 'nightly' exists", "another name"] {
        assert!(ran.err.contains(text), "{ran:?}");
    }
}

/// The ids of earlier imports were made of the times too.
#[test]
fn a_schedule_of_an_earlier_import_is_updated_by_its_label() {
    let env = Env::new();
    let file = env.write("crontab", "0 1 * * * backup --all\n");
    let words = ["schedule", "import", &file, "-o", "json"];
    let new = env.run(&[&words[..], &["--dry-run"]].concat()).ok().lines();
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let path = std::fs::canonicalize(&file).unwrap();
    let label = format!("{}:{}", machine.trim(), path.display());
    let line = json!({
        "op": "submit", "id": "cron-backup-0badcafe", "kind": "schedule", "props": new[0]["spec"],
        "labels": {"crontab": label}, "start_at": "2099-01-01T00:00:00Z",
    });
    let lines = env.write("lines", &line.to_string());
    env.run(&["apply", &lines]).ok();
    env.write("crontab", "0 2 * * * backup --all\n");
    let updated = env.run(&words).ok().lines();
    assert_eq!(
        (&updated[0]["id"], &updated[0]["action"]),
        (&json!("cron-backup-0badcafe"), &json!("updated"))
    );
    let listed = env.json(&["schedule", "list"]);
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed[0]["spec"]["cron"], json!(["0 2 * * *"]));
}

#[test]
fn the_zone_of_an_imported_line_is_that_of_the_machine() {
    let env = Env::new();
    let crontab = env.write("crontab", "30 2 * * * job\n");
    let words = ["schedule", "import", &crontab, "--dry-run", "-o", "json"];
    for zone in [
        "Asia/Tokyo",
        ":Asia/Tokyo",
        ":/usr/share/zoneinfo/Asia/Tokyo",
    ] {
        let shown = ran(&env, &[("TZ", zone)], &words).ok();
        assert!(
            shown.out.contains(r#""zone":"Asia/Tokyo""#),
            "{}",
            shown.out
        );
        let says = "note: the zone of lines without CRON_TZ is Asia/Tokyo, that of this machine";
        assert!(shown.err.contains(says), "{}", shown.err);
    }
    let chosen = [&words[..], &["--zone", "Europe/Berlin"]].concat();
    let shown = ran(&env, &[("TZ", "Asia/Tokyo")], &chosen).ok();
    assert!(!shown.err.contains("zone"), "{}", shown.err);
}

/// Regression: `create` silently used UTC, and `import` the zone of the machine.
#[test]
fn a_created_schedule_says_which_zone_it_has_taken() {
    let env = Env::new();
    let words = [
        "schedule",
        "create",
        "s",
        "--cron",
        "30 2 * * *",
        "--dry-run",
    ];
    let create = |more: &[&str]| {
        let words = [&words[..], more, &["--", "true"]].concat();
        ran(&env, &[("TZ", "Asia/Tokyo")], &words).ok()
    };
    let shown = create(&[]);
    assert!(shown.out.contains("02:30:00 +00:00 UTC"), "{shown:?}");
    let says = "its times are in UTC, and the zone of this machine is Asia/Tokyo; `--zone local` takes that one";
    assert!(shown.err.contains(says), "{shown:?}");
    let shown = create(&["--zone", "local"]);
    assert!(
        shown.out.contains("02:30:00 +09:00 Asia/Tokyo"),
        "{shown:?}"
    );
    assert_eq!(shown.err, "");
    assert_eq!(create(&["--zone", "UTC"]).err, "");
}
