//! Lines with limits.

use super::*;

#[test]
fn a_run_names_the_limit_that_it_waits_for() {
    let place = Place::new();
    let line = |id: &str, shell: &str| {
        let limits = r#"[{"key":"gpu","at_once":1}]"#;
        format!("{{\"id\":\"{id}\",\"shell\":\"{shell}\",\"limits\":{limits}}}\n")
    };
    let wait = "echo run >> log; while [ ! -e go ]; do sleep 0.05; done";
    place.write("first", &line("first", wait));
    let first = place.start(&["run", "first"]);
    place.until_lines("log", 1);
    let second = [line("second", "echo two >> log"), line("third", "true")];
    place.write("second", &second.concat());
    let mut run = place.windlass(&["run", "second"]);
    run.stderr(fs::File::create(place.path("err")).unwrap());
    let run = crate::live::Running::of(run.spawn().unwrap());
    let says =
        "nothing runs, 2 tasks wait: line 1 (second): it waits for the limit 'gpu' (1 at once)\n";
    until("the limit is named", || place.read("err").contains(says));
    place.write("go", "");
    assert_eq!((first.wait(), run.wait()), (Some(0), Some(0)));
    let err = place.read("err");
    assert!(err.contains("2 lines: 2 completed"), "{err}");
}

#[test]
fn the_limits_of_the_options_hold_for_lines_without_their_own() {
    let place = Place::new();
    let wait = "echo {} >> log; while [ ! -e go ]; do sleep 0.05; done";
    let options = ["--at-once", "gpu=1", "--each", wait, "--shell", "-j", "3"];
    let run = [&["run", "lines"][..], &options].concat();
    place.write("lines", "1\n2\n");
    let run = place.start(&run);
    place.until_lines("log", 1);
    until("a task waits for the limit", || {
        let tasks = place.list(&[]);
        tasks.iter().any(|task| !task["limited_by"].is_null())
    });
    assert_eq!(place.read("log").lines().count(), 1);
    place.write("go", "");
    assert_eq!(run.wait(), Some(0));
}
