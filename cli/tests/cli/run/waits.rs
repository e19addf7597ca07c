//! Lines that wait for others: a graph of commands.

use std::collections::HashMap;

use super::*;

/// A graph of `width` commands in each of `depth` layers. Each waits for two of the layer before.
fn layers(width: usize, depth: usize, command: &str) -> String {
    let mut lines = String::new();
    for layer in 0..depth {
        for n in 0..width {
            let id = format!("t{layer}-{n}");
            let shell = command.replace("ID", &id);
            let before = |n: usize| format!("\"t{}-{}\"", layer.saturating_sub(1), n % width);
            let after = match layer {
                0 => String::new(),
                _ => format!(",\"after_ok\":[{},{}]", before(n), before(n + 1)),
            };
            let _ = writeln!(lines, "{{\"id\":\"{id}\",\"shell\":\"{shell}\"{after}}}");
        }
    }
    lines
}

/// Asserts that each command of such a graph started after those that it waits for had ended.
fn assert_in_order(log: &str, width: usize) {
    let mut ended: HashMap<&str, usize> = HashMap::new();
    for (at, line) in log.lines().enumerate() {
        let (what, id) = line.split_once(' ').unwrap();
        if what == "end" {
            ended.insert(id, at);
            continue;
        }
        let (layer, n) = id[1..].split_once('-').unwrap();
        let (layer, n): (usize, usize) = (layer.parse().unwrap(), n.parse().unwrap());
        if layer > 0 {
            for other in [n, (n + 1) % width] {
                let other = format!("t{}-{other}", layer - 1);
                assert!(ended.contains_key(&*other), "{id} before {other}:\n{log}");
            }
        }
    }
}

#[test]
fn a_graph_that_is_killed_goes_on_in_its_order() {
    let place = Place::new();
    let (width, depth) = (4, 8);
    place.write(
        "graph",
        &layers(
            width,
            depth,
            "echo start ID >> log; sleep 0.05; echo end ID >> log",
        ),
    );
    let args = ["run", "-j", "4", "--lease-ttl", "1s", "graph"];
    for killed_at in [10, 30] {
        let run = place.start(&args);
        place.until_lines("log", killed_at);
        run.kill();
        assert!(place.list(&["--state", "completed"]).len() < width * depth);
    }
    let (code, _, err) = place.run(&args);
    assert_eq!(code, 0, "{err}");
    let log = place.read("log");
    assert_in_order(&log, width);
    let ends: std::collections::BTreeSet<&str> =
        log.lines().filter(|line| line.starts_with("end")).collect();
    assert_eq!(ends.len(), width * depth, "every command ran");
    for task in place.list(&[]) {
        assert_eq!(task["state"], "completed");
    }
}

#[test]
fn a_command_behind_a_failed_one_is_not_run_and_counts() {
    let place = Place::new();
    let lines = "{\"id\":\"a\",\"shell\":\"exit 3\",\"retry\":1}\n\
                 {\"id\":\"b\",\"shell\":\"touch b\",\"after_ok\":[\"a\"]}\n\
                 {\"id\":\"c\",\"shell\":\"touch c\",\"after_ok\":[\"b\"]}\n\
                 {\"id\":\"d\",\"shell\":\"echo \\\"$WINDLASS_WAITED\\\" > d\",\"after\":[\"a\"]}\n";
    place.write("graph", lines);
    let (code, out, err) = place.run(&["run", "graph", "-o", "json"]);
    assert_eq!(code, 1, "{err}");
    let summary = summary(&out);
    let counts = ["completed", "failed", "not_run"].map(|name| summary[name].as_u64());
    assert_eq!(counts, [Some(1), Some(3), Some(2)]);
    assert!(!place.path("b").exists() && !place.path("c").exists());
    assert_eq!(
        place.read("d"),
        "[{\"task\":\"a\",\"outcome\":\"failed\"}]\n"
    );
    let c = place.get("c");
    assert_eq!(
        c["errors"][0]["error"],
        "could not run: task 'b' has to complete first (after_ok) and failed; retry the task that failed first, then \
         those that wait for it"
    );
    assert_eq!(c["waits_for_now"][0]["state"], "failed");
    let (_, out, _) = place.run(&["get", "c"]);
    assert!(
        out.contains("has waited for 1 task, each of which has to complete\n  b  failed"),
        "{out}"
    );

    let (code, out, err) = place.run(&["graph", "b"]);
    assert_eq!(
        (code, &*out),
        (
            0,
            "b  failed\n  waits for\n    a  failed\n  is waited for by\n    c  failed\n"
        ),
        "{err}"
    );
    let (_, out, _) = place.run(&["graph", "a", "--format", "dot"]);
    for line in [
        "digraph tasks {",
        "  \"a\" [label=\"a\\nfailed\"];",
        "  \"a\" -> \"b\";",
        "  \"b\" -> \"c\";",
    ] {
        assert!(out.contains(line), "{line}: {out}");
    }
    let (_, out, _) = place.run(&["graph", "c", "-o", "json"]);
    let graph: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(graph["tasks"].as_array().unwrap().len(), 3);
    assert_eq!(graph["edges"][0]["waits_for"], "b");
    let (_, out, _) = place.run(&["list", "--tree"]);
    assert_eq!(
        out,
        "a  failed\n  b  failed\n    c  failed\n  d  completed\n"
    );
}

/// Regression: the summary did not report it: the counts were those of a run in which nothing depended
/// on the failure.
#[test]
fn lines_that_ran_behind_a_failed_one_are_counted_and_the_end_says_how_to_go_on() {
    let place = Place::new();
    let lines = "{\"id\":\"a\",\"shell\":\"exit 3\"}\n\
                 {\"id\":\"b\",\"shell\":\"true\",\"after\":[\"a\"]}\n\
                 {\"id\":\"c\",\"shell\":\"exit 4\",\"after\":[\"a\"]}\n\
                 {\"id\":\"d\",\"shell\":\"true\",\"after\":[\"b\"]}\n";
    place.write("graph", lines);
    let behind = "2 lines ran although a line before them failed (after); after_ok stops them\n";
    let hint = "`windlass run … --retry-failed` runs again what failed\n";
    for more in [&[][..], &["--print-output"]] {
        let place = Place::new();
        place.write("graph", lines);
        let (code, _, err) = place.run(&[&["run", "graph", "--batch", "g"], more].concat());
        assert_eq!(code, 1, "{err}");
        assert_eq!(err.matches(behind).count(), 1, "{err}");
        assert!(err.ends_with(hint), "{err}");
    }
    let args = ["run", "graph", "--batch", "g"];
    let (code, _, err) = place.run(&[&args[..], &["-o", "json"]].concat());
    assert_eq!(code, 1, "{err}");
    assert!(!err.contains("although") && !err.contains(hint), "{err}");
    // In the second run, none of them runs.
    let (code, _, err) = place.run(&args);
    assert_eq!(code, 1, "{err}");
    assert!(!err.contains("although") && err.ends_with(hint), "{err}");
    // A failure of an earlier run counts for a new line.
    place.write(
        "graph",
        &format!("{lines}{{\"id\":\"e\",\"shell\":\"true\",\"after\":[\"a\"]}}\n"),
    );
    let (code, _, err) = place.run(&args);
    assert_eq!(code, 1, "{err}");
    let one = "1 line ran although a line before it failed (after); after_ok stops it\n";
    assert!(err.contains(one), "{err}");
    let (code, _, err) =
        Place::new().run_with(&["run", "--store", "memory:"], b"{\"shell\":\"exit 3\"}\n");
    assert_eq!(code, 1, "{err}");
    assert!(!err.contains(hint), "nothing is kept: {err}");
}

/// Regression: it advised a retry of each earlier task, of which only the first had run.
#[test]
fn the_summary_names_the_first_failure_of_a_chain() {
    let place = Place::new();
    let lines = "{\"id\":\"a\",\"shell\":\"exit 3\"}\n\
                 {\"id\":\"b\",\"shell\":\"true\",\"after_ok\":[\"a\"]}\n\
                 {\"id\":\"c\",\"shell\":\"true\",\"after_ok\":[\"b\"]}\n";
    place.write("graph", lines);
    let (code, _, err) = place.run(&["run", "graph"]);
    assert_eq!(code, 1, "{err}");
    for id in ["b", "c"] {
        let says = format!(
            "{id} failed: not run: task 'a' before it failed; after_ok requires that it completes\n"
        );
        assert!(err.contains(&says), "{err}");
    }
    assert!(!err.contains("retry that task"), "{err}");
}

#[test]
fn a_submitted_task_waits_for_a_task_of_the_store() {
    let place = Place::new();
    place.write(
        "graph",
        "{\"id\":\"a\",\"command\":\"true\"}\n{\"id\":\"b\",\"command\":\"true\",\"after\":[\"a\"]}\n",
    );
    let (code, _, err) = place.run(&[
        "submit",
        "exec",
        "--id",
        "gate",
        "--props",
        "{\"command\":\"true\"}",
    ]);
    assert_eq!(code, 0, "{err}");
    let (code, _, err) = place.run(&[
        "submit",
        "exec",
        "--id",
        "w",
        "--props",
        "{\"command\":\"true\"}",
        "--after",
        "gate",
    ]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(place.get("w")["waits_for"]["tasks"][0], "gate");
    let waits = place.get("w")["waits"].to_string();
    assert!(waits.contains("it waits for 1 task: gate"), "{waits}");
    assert!(place.get("w")["until"].is_null());
    let (_, out, _) = place.run(&["get", "w"]);
    assert!(!out.contains("9999"), "{out}");
    let (code, _, err) = place.run(&["run", "graph"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(place.get("b")["state"], "completed");
    assert_eq!(place.get("w")["state"], "sleeping");
}

#[test]
fn a_tree_has_the_tasks_of_a_circle() {
    let place = Place::new();
    for (id, after) in [("a", "b"), ("b", "a"), ("c", "b")] {
        let words = [
            "submit",
            "exec",
            "--id",
            id,
            "--allow-missing",
            "--after",
            after,
            "--props",
        ];
        let (code, _, err) = place.run(&[&words[..], &["{\"command\":\"true\"}"]].concat());
        assert_eq!(code, 0, "{err}");
    }
    let (_, out, _) = place.run(&["list", "--tree"]);
    for id in ["a", "b", "c"] {
        let line = format!("{id}  sleeping");
        assert!(
            out.lines().any(|l| l.trim_start().starts_with(&line)),
            "{out}"
        );
    }
}

#[test]
fn a_line_waits_for_the_task_that_has_the_unique_key_of_its_line() {
    let place = Place::new();
    let unique = "\"unique\":{\"key\":\"k\",\"within\":\"1h\"}";
    let lines = format!(
        "{{\"id\":\"a\",\"shell\":\"sleep 0.5; echo a >> log\",{unique}}}\n\
         {{\"id\":\"b\",\"shell\":\"sleep 0.5; echo a >> log\",{unique}}}\n\
         {{\"id\":\"c\",\"shell\":\"echo c >> log\",\"after\":[\"b\"]}}\n\
         {{\"id\":\"d\",\"shell\":\"echo d >> log\",\"after\":[\"a\",\"b\"]}}\n"
    );
    place.write("graph", &lines);
    let (code, _, err) = place.run(&["run", "graph"]);
    assert_eq!(code, 0, "{err}");
    assert!(
        place.read("log").starts_with("a\n"),
        "{}",
        place.read("log")
    );
    for id in ["c", "d"] {
        assert_eq!(
            place.get(id)["waits_for"]["tasks"],
            serde_json::json!(["a"]),
            "{id}"
        );
    }
}

/// Regression: the line was refused ("was not submitted by run"), and the line that waits for it waited
/// for ever.
#[test]
fn a_live_task_of_another_program_with_the_unique_key_of_a_line_counts_as_its_task() {
    let place = Place::new();
    let unique = "\"unique\":{\"key\":\"k\",\"within\":\"1h\"}";
    let cwd = place.path(".").canonicalize().unwrap();
    let props = serde_json::json!({"shell": "echo a >> log", "cwd": cwd}).to_string();
    let words = [
        "submit", "exec", "--id", "outside", "--unique", "k=1h", "--props", &props,
    ];
    let (code, _, err) = place.run(&words);
    assert_eq!(code, 0, "{err}");
    let lines = format!(
        "{{\"id\":\"a\",\"shell\":\"echo a >> log\",{unique}}}\n\
         {{\"id\":\"b\",\"shell\":\"echo b >> log\",\"after\":[\"a\"]}}\n"
    );
    place.write("graph", &lines);
    let run = place.start(&["run", "graph"]);
    until("line 2 is submitted", || place.list(&[]).len() == 2);
    assert_eq!(place.get("b")["waits_for"]["tasks"][0], "outside");
    let (code, _, err) = place.run(&["worker", "--until-idle"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(run.wait(), Some(0));
    assert_eq!(place.read("log"), "a\nb\n");
}

/// The task that a line waits for may have been pruned since the line was submitted.
#[test]
fn a_line_whose_task_is_there_already_may_wait_for_a_pruned_task() {
    let place = Place::new();
    place.write("first", "{\"id\":\"a\",\"command\":\"true\"}\n");
    place.write(
        "second",
        "{\"id\":\"b\",\"command\":\"true\",\"after\":[\"a\"]}\n",
    );
    for file in ["first", "second"] {
        assert_eq!(place.run(&["run", file]).0, 0);
    }
    assert_eq!(place.run(&["delete", "a", "--yes"]).0, 0);
    let (code, _, err) = place.run(&["run", "second"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("1 completed, 1 from an earlier run"), "{err}");
}

/// Regression: it said "it waits for 1 task", although only a missing node held the task back.
#[test]
fn a_task_whose_wait_is_over_says_what_else_it_waits_for() {
    let place = Place::new();
    let words = [
        "submit",
        "exec",
        "--id",
        "w",
        "--allow-missing",
        "--after",
        "never",
        "--props",
    ];
    assert_eq!(
        place
            .run(&[&words[..], &["{\"command\":\"true\"}"]].concat())
            .0,
        0
    );
    let waits = place.get("w")["waits"].to_string();
    assert!(waits.contains("no live node handles its kind"), "{waits}");
}
