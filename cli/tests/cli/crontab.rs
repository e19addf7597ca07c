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
    let lines = "61 * * * * x\n* * * *\n0 0 * * * right\n0 0 30 2 * never\n";
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
        for at in [0, 1] {
            let gone = id(&first, at);
            let says = format!(
                "note: '{gone}' is no longer in this crontab, from which it was imported, and still runs"
            );
            assert!(ran.err.contains(&says), "{ran:?}");
            assert!(
                ran.err
                    .contains(&format!("windlass schedule delete {gone}`")),
                "{ran:?}"
            );
        }
        assert_eq!(ran.err.matches("no longer").count(), 2, "{ran:?}");
    }
    env.run(&["schedule", "delete", &id(&first, 0)]).ok();
    env.run(&["schedule", "delete", &id(&first, 1)]).ok();
    assert!(!import(&changed).err.contains("no longer"));
    // Standard input is a crontab, too.
    let words = ["schedule", "import", "-"];
    env.run_with(&words, "0 4 * * * four\n").ok();
    let ran = env.run_with(&words, "0 5 * * * five\n").ok();
    assert_eq!(ran.err.matches("no longer").count(), 1, "{ran:?}");
}

#[test]
fn a_crontab_with_a_column_for_the_user_is_noted() {
    let env = Env::new();
    let file = env.write("crontab", "17 * * * * root run-parts /etc/cron.hourly\n");
    let ran = env.run(&["schedule", "import", &file, "--dry-run"]).ok();
    assert!(
        ran.err
            .contains("note: line 1: 'root' is imported as the program"),
        "{ran:?}"
    );
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
