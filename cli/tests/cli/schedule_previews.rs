//! `windlass schedule preview`: times without a schedule.

use crate::{env::Env, schedules::create};

#[test]
fn times_are_previewed_without_a_schedule() {
    let env = Env::new();
    let words = [
        "schedule",
        "preview",
        "--every",
        "6h",
        "--anchor",
        "2020-01-01T00:00:00Z",
        "--at",
        "2999-01-01T00:00:00Z",
    ];
    assert_eq!(env.json(&words).as_array().unwrap().len(), 10);
    let counted = [&words[..], &["--count", "3"]].concat();
    assert_eq!(env.json(&counted).as_array().unwrap().len(), 3);
    // With a schedule, the options change its times as an update does.
    create(&env, &["--count", "2"]);
    let times = |more: &[&str]| env.json(&[&["schedule", "preview", "nightly"], more].concat());
    assert_eq!(times(&[]).as_array().unwrap().len(), 2);
    let noon = times(&["--cron", "0 12 * * *", "--count", "4", "--zone", "UTC"]);
    assert_eq!(noon.as_array().unwrap().len(), 4);
    let first = noon[0]["nominal"].as_str().unwrap();
    assert!(first.ends_with("T12:00:00Z"), "{first}");
    let ran = env
        .run(&["schedule", "preview", "-n", "1", "--cron", "0 12 * * *"])
        .ok();
    assert!(ran.out.contains("T12:00:00Z"), "{ran:?}");
    assert!(ran.out.contains("+00:00 UTC"), "{ran:?}");
}

#[test]
fn a_preview_has_a_bound() {
    let env = Env::new();
    let words = ["schedule", "preview", "--cron", "* * * * *", "-n"];
    for count in ["0", "10001", "1000000000", "99999999999999999999"] {
        env.run(&[&words[..], &[count]].concat())
            .fails(2, &["is not from 1 to 10000"]);
    }
    let times = env.json(&[&words[..], &["10000"]].concat());
    assert_eq!(times.as_array().unwrap().len(), 10_000);
}

#[test]
fn a_preview_without_times_says_why() {
    let env = Env::new();
    let preview = |words: &[&str]| env.run(&[&["schedule", "preview"], words].concat());
    let boots = preview(&["--cron", "@reboot"]).ok();
    assert!(
        boots.err.contains("@reboot runs at each start"),
        "{}",
        boots.err
    );
    let over = preview(&["--at", "2020-01-01T00:00:00Z"]);
    assert!(over.err.contains("no time"), "{over:?}");
    for (every, says) in [
        ("0mo", "'0mo' is not from 1mo to 1200mo"),
        ("1M", "write 1mo for months, or 1m for minutes"),
    ] {
        preview(&["--every", every]).fails(2, &[says]);
    }
    preview(&["--every", "1d", "--except-date", "2030-02-30"]).fails(
        2,
        &["'2030-02-30' is not a day of the calendar; write it like 2030-01-02"],
    );
}
