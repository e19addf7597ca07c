//! `windlass why`: which tasks are not run, and the command that resolves it.

use serde_json::{Value, json};

use crate::env::Env;

/// Returns the words of the command that a reason names.
fn words(one: &Value) -> Vec<String> {
    let remedy = one["remedy"].as_str().unwrap();
    let words = remedy.strip_prefix("windlass ").unwrap();
    words.split(' ').map(str::to_owned).collect()
}

#[test]
fn why_names_every_reason_with_a_command_that_acts_on_its_tasks() {
    let env = Env::new();
    for args in [
        &["report", "--id", "a"][..],
        &["report", "--id", "b"],
        &["report", "--id", "c", "--after", "a"],
        &["report", "--id", "later", "--in", "1h"],
        &["mail", "--id", "p", "--paused"],
        &["--id", "x", "--shell", "true"],
    ] {
        env.run(&[&["submit"][..], args].concat()).ok();
    }
    let why = env.json(&["why"]);
    let waiting = why["waiting"].as_array().unwrap();
    let short: Vec<_> = waiting
        .iter()
        .map(|one| json!([one["tasks"], one["kind"], one["reason"]]))
        .collect();
    assert_eq!(short[0], json!([2, "report", "no_node"]), "{why}");
    for expected in [
        json!([1, "report", "tasks"]),
        json!([1, "mail", "paused"]),
        json!([1, "exec", "no_node"]),
    ] {
        assert!(short.contains(&expected), "{expected} is not in {why}");
    }
    assert_eq!(short.len(), 4, "a task that sleeps is not blocked: {why}");

    let ran = env.run(&["why", "--kind", "rep*"]).ok();
    assert!(
        ran.err.contains("no node lives") && ran.err.contains("windlass doctor"),
        "{}",
        ran.err
    );
    let text = ran.out;
    assert!(text.starts_with("2 report: no live node handles"), "{text}");
    assert!(text.contains("try: windlass list --kind report --waits no_node"));
    assert!(!text.contains("mail"), "{text}");

    let paused = waiting.iter().find(|one| one["reason"] == "paused");
    let resume = words(paused.unwrap());
    let mut resume: Vec<&str> = resume.iter().map(String::as_str).collect();
    let dry = env.run(&resume).ok();
    assert!(
        dry.err.contains("resume") || dry.err.contains("run"),
        "{dry:?}"
    );
    assert_eq!(
        resume.pop(),
        Some("--dry-run"),
        "a resume runs tasks that slept at once"
    );
    env.run(&[&resume[..], &["--yes"]].concat()).ok();
    assert_eq!(
        env.json(&["get", "p"])["commands"][0]["command"],
        json!({"message": "run"})
    );
    let exec = waiting.iter().find(|one| one["kind"] == "exec").unwrap();
    assert_eq!(words(exec), ["worker"]);
    env.run(&["worker", "--until-idle"]).ok();
    let left = env.json(&["why"]);
    let kinds = left["waiting"].as_array().unwrap().iter();
    let kinds: Vec<_> = kinds.map(|one| one["kind"].clone()).collect();
    assert!(!kinds.contains(&json!("exec")), "{left}");
}

#[test]
fn why_explains_one_task() {
    let env = Env::new();
    env.run(&["submit", "report", "--id", "a"]).ok();
    env.run(&["submit", "report", "--id", "c", "--after", "a"])
        .ok();
    env.run(&["submit", "--id", "x", "--shell", "true"]).ok();
    assert_eq!(
        env.json(&["why", "c"]),
        json!({"reason": "tasks", "text": "it waits for 1 task: a"})
    );
    let text = env.run(&["why", "c"]).ok().out;
    assert!(text.contains("try: windlass graph"), "{text}");
    env.run(&["worker", "--until-idle"]).ok();
    assert_eq!(env.run(&["why", "x"]).ok().out, "it has ended: completed\n");
    let none = env.run(&["why", "nothing"]);
    assert!(none.err.contains("nothing"), "{}", none.err);
    assert_ne!(none.code, 0);
    let both = env.run(&["why", "x", "--kind", "report"]);
    assert_eq!(both.code, 2, "{}", both.err);
}

/// Regression: for a task that did not run, because another had failed, the line said to retry it. It failed again. Later the
/// line named the direct predecessor, which failed again too, and left out the dependents of the first task.
#[test]
fn why_names_the_task_to_retry_first() {
    let env = Env::new();
    for (id, after, command) in [
        ("first", None, "exit 1"),
        ("-next", Some("first"), "true"),
        ("third", Some("-next"), "true"),
        ("lone", Some("missing"), "true"),
        ("alone", None, "exit 1"),
        ("other", None, "exit 1"),
        ("both", Some("third,other"), "true"),
    ] {
        let id = format!("--id={id}");
        let mut words = vec!["submit", &id, "--retry", "never", "--shell", command];
        words.push("--allow-missing");
        let after = after.map(|after| format!("--after-ok={after}"));
        words.extend(after.as_deref());
        env.run(&words).ok();
    }
    env.run(&["worker", "--until-idle"]).ok();
    for (id, says) in [
        ("first", "try: windlass retry --with-dependents first"),
        ("-next", "try: windlass retry --with-dependents first"),
        ("third", "try: windlass retry --with-dependents first"),
        ("alone", "try: windlass retry alone"),
        ("lone", "try: windlass graph lone"),
        // Both of the first ones, or the retry would leave it out.
        ("both", "try: windlass retry --with-dependents first other"),
    ] {
        let text = env.run(&["why", "--", id]).ok().out;
        assert!(text.contains(&format!("{says}\n")), "{id}: {text}");
    }
}

/// Regression: nothing said who had paused the tasks.
#[test]
fn why_names_who_paused_tasks() {
    let env = Env::new();
    for id in ["a", "b", "c"] {
        env.run(&["submit", "--id", id, "--shell", "true"]).ok();
    }
    env.run(&["pause", "a", "b", "c", "--note", "the database moves"])
        .ok();
    env.run(&["worker", "--until-idle"]).ok();
    let by = env.json(&["get", "a"])["paused_by"]["by"].clone();
    let text = format!(
        "it is paused until it is resumed; paused by {}",
        by.as_str().unwrap()
    );
    let why = env.json(&["why"]);
    assert_eq!(why["waiting"][0]["reason"], "paused", "{why}");
    assert_eq!(why["waiting"][0]["text"], format!("{text} (3)"));
    assert_eq!(why["waiting"][0]["paused_by"], json!([by]));
    let all = env.run(&["why"]).ok().out;
    assert!(all.contains(&format!("{text} (3)")), "{all}");
    let one = env.run(&["why", "c"]).ok().out;
    assert!(
        one.starts_with(&format!("{text}: the database moves\n")),
        "{one}"
    );
}

#[test]
fn why_says_that_nothing_is_held_back() {
    let env = Env::new();
    env.run(&["submit", "report", "--in", "1h"]).ok();
    let none = env.run(&["why"]).ok();
    assert_eq!(none.out, "");
    assert!(
        none.err.contains("every task that is due runs"),
        "{}",
        none.err
    );
}

#[test]
fn why_names_refused_rows_of_the_inbox() {
    let env = Env::new();
    env.run(&["submit", "report", "--id", "a", "--paused"]).ok();
    env.run(&["resume", "a"]).ok();
    env.run(&["kill", "a"]).ok();
    let file = rusqlite::Connection::open(env.path("store.db")).unwrap();
    let insert = "INSERT INTO windlass_inbox (operation) VALUES ('no JSON')";
    file.execute(insert, ()).unwrap();
    let text = env.run(&["why"]).ok().out;
    let begins = "1 row of windlass_inbox was refused, and has no effect until corrected; row 1: operation: is not JSON";
    assert!(text.contains(begins), "{text}");
    assert!(text.contains("try: windlass doctor"), "{text}");
    let why = env.json(&["why"]);
    assert_eq!(why["refused_rows"]["rows"], 1, "{why}");
    file.execute("DELETE FROM windlass_inbox", ()).unwrap();
    let why = env.json(&["why"]);
    assert_eq!(why.get("refused_rows"), None, "{why}");
}
