//! What a run says of a store that fails, and how long it waits for it.

use super::*;

#[test]
fn a_read_that_succeeds_does_not_end_an_outage_of_writes() {
    let now = Instant::now();
    for sign in [Sign::Write, Sign::Result] {
        let mut outage = Outage {
            signs: HashMap::from([(sign, now), (Sign::Read, now), (Sign::Lease, now)]),
            said: Some(now),
            said_limit: true,
        };
        assert_eq!(outage.works(Sign::Read), None);
        assert_eq!(outage.works(Sign::Lease), None);
        assert_eq!(outage.works(sign), Some(now));
        assert_eq!(outage.works(sign), None, "it is said once");
    }
}

#[test]
fn the_ends_that_were_given_up_are_counted() {
    assert_eq!(
        given_up_text(1, "the store is full"),
        "the store is full: 1 end could not be stored; its command runs again"
    );
    assert_eq!(
        given_up_text(2, "the store is full"),
        "the store is full: 2 ends could not be stored; their commands run again"
    );
}

#[test]
fn the_line_says_what_is_waited_for() {
    let file = Some(Path::new("/data/w.db"));
    let error = Error::unavailable("submit a task", "no leader").to_string();
    for (file, free, error, says) in [
        (
            file,
            Some(0),
            None,
            "the store is full: waiting; free space on the disk of /data/w.db",
        ),
        (
            file,
            Some(FULL),
            None,
            "the store accepts no writes: waiting",
        ),
        (
            None,
            None,
            Some(error.as_str()),
            "waiting for at most 1m (could not submit a task: the store is unavailable: no leader)",
        ),
        (None, None, None, "`windlass doctor` says more"),
    ] {
        let state = |limit| State { file, free, limit };
        let text = waiting_text(state(Some(PATIENCE)), error, &Hint::default());
        assert!(text.contains(says), "{text}");
        // The run waits for space without a limit, and so does the node for everything.
        let is_full = free == Some(0);
        assert_eq!(text.contains("at most"), !is_full, "{text}");
        let text = waiting_text(state(None), error, &Hint::default());
        assert!(!text.contains("at most"), "{text}");
    }
}

/// A screen of a store in this folder, which prints nothing.
fn screen(folder: &Path) -> Screen {
    Screen {
        out: Output::new(crate::output::Format::Table, false, true),
        bar: None,
        file: Some(folder.join("s.db")),
        outage: Arc::default(),
        hint: Hint::default(),
    }
}

/// Regression: the line promised that the run continues once there is space, and the run ended after a minute.
#[tokio::test]
async fn a_run_waits_for_space_on_a_full_disk_as_long_as_it_takes() {
    let asked = std::cell::Cell::new(0);
    let ask = || {
        asked.set(asked.get() + 1);
        let answer = match asked.get() {
            1..=4 => Err(Error::unavailable("get", "the disk is full")),
            n => Ok(n),
        };
        async move { answer }
    };
    let limit = Duration::ZERO;
    assert_eq!(ask_while(limit, || true, ask).await.unwrap(), 5);
    asked.set(0);
    assert!(ask_while(limit, || false, ask).await.is_err());
}

#[test]
fn only_a_full_disk_is_waited_for_without_a_limit_and_not_for_the_summary_alone() {
    let dir = tempfile::tempdir().unwrap();
    assert!(!screen(dir.path()).waits_for_space(PATIENCE));
    // This file system never has space.
    if cfg!(target_os = "linux") {
        let full = screen(Path::new("/proc"));
        assert!(full.waits_for_space(PATIENCE));
        assert!(!full.waits_for_space(Duration::from_secs(10)));
    }
}
