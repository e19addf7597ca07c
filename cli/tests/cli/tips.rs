//! Tips of `submit`: what a command line that does not fit probably meant.

use crate::env::Env;

#[test]
fn a_timeout_is_of_the_wait_and_the_task_goes_on() {
    let env = Env::new();
    env.run(&["submit", "--timeout", "5s", "--", "true"]).fails(
        2,
        &[
            "--wait",
            "tip: --timeout is how long --wait waits; the limit of a command is 'timeout' in its props: windlass submit \
             exec --props '{\"command\":\"make\",\"timeout\":\"1h\"}'",
        ],
    );
    let other = env.run(&["pause", "a", "--timeout", "5s"]);
    assert!(!other.fails(2, &["--wait"]).err.contains("tip"));
    let store = env.url();
    let kill = format!("windlass kill --store {store} 'a b'");
    for (id, options, kill) in [
        ("a", &[][..], "windlass kill a"),
        ("a b", &["--store", &store], &kill),
    ] {
        let words = ["submit", "k", "--id", id, "--wait", "--timeout", "50ms"];
        let ran = env.run(&[&words[..], options].concat());
        let says = format!(
            "task '{id}' has not ended after 50ms (--timeout); it continues; end it with: {kill}\n"
        );
        assert!(ran.code == 5 && ran.err.ends_with(&says), "{ran:?}");
    }
}

#[test]
fn a_command_without_its_dashes_gets_a_tip() {
    let env = Env::new();
    for words in [&["sleep", "600"][..], &["--props", "{}"], &[]] {
        let ran = env.run(&[&["submit"], words].concat());
        ran.fails(2, &["a command goes behind --: windlass submit -- COMMAND"]);
    }
    let ran = env.run(&["submit", "./backup.sh"]);
    ran.fails(
        2,
        &["kind: './backup.sh'", "windlass submit -- ./backup.sh"],
    );
    let ran = env.run(&["submit", "tar czf x", "--id", "a"]).ok();
    let tip = "tip: to run a command, write: windlass submit --shell 'tar czf x'; windlass delete a removes this task";
    assert!(ran.err.contains(tip), "{ran:?}");
    for words in [
        &["submit", "report"][..],
        &["submit", "sh", "--props", "[1]"],
        &["submit", "--", "true"],
    ] {
        let ran = env.run(words).ok();
        assert!(!ran.err.contains("tip"), "{ran:?}");
    }
    let other = env.run(&["get", "--id", "x"]);
    assert!(!other.fails(2, &["--id"]).err.contains("behind --"));
}
