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
    assert_eq!(ran.out.lines().count(), 2, "{ran:?}");
    assert!(ran.out.contains("would create"), "{ran:?}");
    assert!(ran.err.contains("line 1: mail is not sent"), "{ran:?}");
    assert!(
        ran.err.contains("line 4: 'start': @reboot is no time"),
        "{ran:?}"
    );
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
    assert_eq!(env.json(&["schedule", "list"]).as_array().unwrap().len(), 2);
    let wrong = env.write("wrong", "61 * * * * x\n* * * *\n0 0 * * * right\n");
    let ran = env.run(&["schedule", "import", &wrong]).code(1);
    assert!(ran.err.contains("line 1: cron: '61 * * * *'"), "{ran:?}");
    assert!(
        ran.err.contains("line 2: '* * * *' has no command"),
        "{ran:?}"
    );
    assert_eq!(
        env.json(&["schedule", "list"]).as_array().unwrap().len(),
        3,
        "the rest is imported"
    );
}

#[test]
fn the_zone_of_an_imported_line_is_that_of_the_machine() {
    let env = Env::new();
    let crontab = env.write("crontab", "30 2 * * * job\n");
    let words = ["schedule", "import", &crontab, "--dry-run"];
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
    }
}
