//! Lines whose waits are wrong, or whose tasks cannot be waited for.

use super::*;

#[test]
fn a_line_before_the_one_that_it_waits_for_and_bad_waits_are_refused() {
    let place = Place::new();
    let lines = "{\"id\":\"b\",\"command\":\"true\",\"after\":[\"a\"]}\n\
                 {\"id\":\"a\",\"command\":\"true\",\"after\":[\"b\"]}\n\
                 {\"id\":\"c\",\"command\":\"true\",\"after\":[\"c\"]}\n\
                 {\"id\":\"d\",\"command\":\"true\",\"after\":[\"e\",\"e\"]}\n\
                 {\"id\":\"f\",\"command\":\"true\",\"after\":[\"e\"],\"after_ok\":[\"g\"]}\n\
                 {\"id\":\"h\",\"command\":\"true\",\"after_deadline\":\"2030-01-01T00:00:00Z\"}\n";
    place.write("graph", lines);
    let (code, _, err) = place.run(&["run", "graph"]);
    assert_eq!(code, 2, "{err}");
    for says in [
        "line 2: id: 'a' is a task for which line 1 waits; put this line before line 1",
        "line 3: after: names the task 'c' itself; name other tasks",
        "line 4: after: names task 'e' twice; name it once",
        "line 5: after_ok: is given together with `after`; put every task into one of them",
        "line 6: after_deadline: is the end of a wait, and the task waits for none",
    ] {
        assert!(err.contains(says), "{says}: {err}");
    }
}

/// Regression: lines that wait for a refused one ran.
#[test]
fn lines_behind_a_line_that_was_refused_are_not_run() {
    let place = Place::new();
    let words = [
        "submit",
        "exec",
        "--id",
        "a",
        "--props",
        "{\"command\":\"true\"}",
    ];
    assert_eq!(place.run(&words).0, 0);
    let lines = "{\"id\":\"a\",\"shell\":\"touch a\"}\n\
                 {\"id\":\"b\",\"shell\":\"touch b\",\"after\":[\"a\"]}\n\
                 {\"id\":\"c\",\"shell\":\"touch c\",\"after_ok\":[\"b\"]}\n\
                 {\"id\":\"d\",\"shell\":\"touch d\"}\n";
    place.write("graph", lines);
    let (code, _, err) = place.run(&["run", "graph"]);
    assert_eq!(code, 1, "{err}");
    for says in [
        "line 1: task 'a' exists already, with another kind or other props",
        "error: 2 lines (2, 3) were not submitted: they wait for lines that have errors\n",
        "4 lines: 1 completed, 3 wrong",
    ] {
        assert!(err.contains(says), "{says}: {err}");
    }
    let there = ["a", "b", "c", "d"].map(|name| place.path(name).exists());
    assert_eq!(there, [false, false, false, true]);
}

/// Regression: a line that waits for an invalid one, or for a mistyped name, ran at once.
#[test]
fn a_line_that_waits_for_what_is_no_line_and_no_task_is_not_run() {
    let place = Place::new();
    let lines = "{\"id\":\"a\",\"shell\":5}\n\
                 {\"id\":\"b\",\"shell\":\"touch b\",\"after\":[\"a\"]}\n\
                 {\"id\":\"c\",\"shell\":\"touch c\",\"after_ok\":[\"d\"]}\n\
                 {\"id\":\"d\",\"shell\":\"touch d\"}\n";
    place.write("graph", lines);
    let (code, _, err) = place.run(&["run", "--keep-going", "graph"]);
    assert_eq!(code, 1, "{err}");
    for says in [
        "line 2: after: names 'a', which is neither an earlier line nor a task of this store; correct the name, or put",
        "error: 1 line (3) was not submitted: it waits for a line that has an error\n",
        "line 4: id: 'd' is a task for which line 3 waits",
    ] {
        assert!(err.contains(says), "{says}: {err}");
    }
    assert!(!place.path("b").exists() && !place.path("c").exists());
}

/// Regression: lines ran although another one was wrong, and `--keep-going` was not given.
#[test]
fn an_unknown_name_and_an_id_of_other_work_are_wrong_before_anything_runs() {
    let place = Place::new();
    for (line, says) in [
        (
            "{\"id\":\"b\",\"shell\":\"touch b\",\"after_ok\":[\"never\"]}",
            "graph: line 2: after: names 'never', which is neither an earlier line nor a task of this store",
        ),
        (
            "{\"id\":\"a\",\"shell\":\"touch b\"}",
            "graph: line 2: id: 'a' is also that of line 1, with another kind or other props",
        ),
    ] {
        place.write(
            "graph",
            &format!("{{\"id\":\"a\",\"shell\":\"touch a\"}}\n{line}\n"),
        );
        let (code, _, err) = place.run(&["run", "graph"]);
        assert_eq!(code, 2, "{err}");
        assert!(err.contains(says), "{says}: {err}");
        assert!(
            err.contains("1 of 2 lines is wrong and nothing was run"),
            "{err}"
        );
    }
    assert!(!place.path("a").exists());
}
