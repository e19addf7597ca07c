//! Notes and errors that say what is true, and what helps.

use serde_json::json;

use crate::{env::Env, settings::ran};

#[test]
fn a_zone_in_an_expression_is_given_as_the_zone() {
    let env = Env::new();
    for cron in [
        "CRON_TZ=Europe/Berlin 0 6 * * *",
        "TZ=Europe/Berlin 0 6 * * *",
    ] {
        let create = ["schedule", "create", "s", "--cron", cron, "--kind", "k"];
        env.run(&create).fails(
            2,
            &["begins with a time zone", "give 'Europe/Berlin'", "--zone"],
        );
    }
}

/// Regression: a link for the default address looked like that of any server.
#[test]
fn a_link_names_the_address_that_it_assumes() {
    let env = Env::new();
    env.run(&["submit", "k"]).ok();
    let link = env.run(&["token", "link"]).ok();
    assert!(link.out.contains(".localhost:7474/"), "{link:?}");
    assert!(
        link.err.contains("for `serve --listen` give --url"),
        "{link:?}"
    );
    let url = "https://tasks.example.com";
    let link = ran(&env, &[("WINDLASS_URL", url)], &["token", "link"]).ok();
    assert!(link.out.starts_with(&format!("{url}/session/")), "{link:?}");
    assert_eq!(link.err, "");
}

/// The note spoke of a worker that submits the runs, although none does while the schedule is paused.
#[test]
fn a_paused_schedule_is_said_to_be_paused() {
    let env = Env::new();
    let create = ["schedule", "create", "s", "--cron", "@daily", "--kind", "k"];
    let created = env.run(&[&create[..], &["--paused"]].concat()).ok();
    let updated = env
        .run(&["schedule", "update", "s", "--cron", "@hourly"])
        .ok();
    for ran in [created, updated] {
        let says = "note: the schedule is paused, and submits no run; `windlass schedule resume s` starts it\n";
        assert_eq!(ran.err, says);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_of_a_kind_that_is_a_program_gets_a_tip() {
    let env = Env::new();
    let node = env.node("n1").await;
    let create = |id: &str, kind: &str| {
        let words = ["schedule", "create", id, "--every", "1h", "--kind", kind];
        env.run(&words).ok().err
    };
    assert_eq!(create("known", "double"), "");
    let said = create("s", "sh");
    assert!(
        said.contains("note: no live node handles kind 'sh'; its runs wait for one\n"),
        "{said}"
    );
    let tip = "tip: to run a command, write: windlass schedule update s --kind exec -- sh\n";
    assert!(said.ends_with(tip), "{said}");
    env.run(&["schedule", "update", "s", "--kind", "exec", "--", "sh"])
        .ok();
    let got = env.json(&["schedule", "get", "s"]);
    assert_eq!(got["spec"]["run"]["kind"], json!("exec"));
    node.shutdown().await;
}

#[test]
fn an_import_of_nothing_says_so() {
    let env = Env::new();
    for text in ["", "# a comment\n"] {
        let ran = env.run_with(&["schedule", "import", "-"], text).ok();
        assert!(ran.err.contains("nothing was imported"), "{ran:?}");
    }
}

#[test]
fn an_id_with_a_star_is_no_pattern() {
    let env = Env::new();
    env.run(&["submit", "k", "--id", "bad@1"]).ok();
    for verb in ["retry", "kill", "get"] {
        env.run(&[verb, "bad@*"])
            .fails(3, &["an id is taken literally", "--prefix"]);
    }
}

#[test]
fn a_missing_file_is_named_without_a_number() {
    let env = Env::new();
    for words in [
        &["submit", "k", "--props", "@/no/file"][..],
        &["submit", "--lines", "/no/file"],
        &["apply", "/no/file"],
        &["run", "/no/file"],
        &["schedule", "import", "/no/file"],
        &["import", "/no/file"],
    ] {
        let ran = env.run(words);
        assert!(ran.err.contains("No such file or directory"), "{ran:?}");
        assert!(!ran.err.contains("os error"), "{ran:?}");
    }
}

/// A run that was backfilled said "completed, 2y ago".
#[tokio::test(flavor = "multi_thread")]
async fn the_last_run_has_the_age_of_its_end() {
    let env = Env::new();
    let node = env.node("n1").await;
    let words = [
        "schedule", "create", "s", "--every", "30d", "--kind", "print",
    ];
    env.run(&words).ok();
    let at = "2020-01-01T00:00:00Z";
    env.run(&["schedule", "trigger", "s", "--for", at]).ok();
    env.run(&["wait", &format!("s@{at}")]).ok();
    let listed = env.run(&["schedule", "list"]).ok().out;
    assert!(!listed.contains("y ago"), "{listed}");
    node.shutdown().await;
}

/// An error of a line ended with an example of other fields.
#[test]
fn an_error_of_a_field_has_no_example_of_others() {
    let env = Env::new();
    let lines = env.write("lines.jsonl", "{\"kind\":\"k\",\"priority\":\"high\"}\n");
    let ran = env.run(&["submit", "--lines", &lines]);
    assert!(ran.err.contains("priority: is \"high\""), "{ran:?}");
    assert!(!ran.err.contains("write it like"), "{ran:?}");
    let lines = env.write("lines.jsonl", "[]\n");
    let ran = env.run(&["submit", "--lines", &lines]);
    assert!(ran.err.contains("write it like"), "{ran:?}");
}

#[test]
fn a_name_that_is_given_two_values_is_refused() {
    let env = Env::new();
    for option in ["--label", "--meta"] {
        env.run(&["submit", "k", option, "a=1", option, "a=2"])
            .fails(2, &[option, "'a=1' and 'a=2'"]);
    }
    env.run(&["worker", "--select", "a=1", "--select", "a=2"])
        .fails(2, &["--select: 'a=1' and 'a=2'"]);
}

/// Regression: the list of schedules ended after the first hundred, and did not say so.
#[test]
fn a_list_of_schedules_that_is_cut_says_so() {
    let env = Env::new();
    for id in ["a", "b", "c"] {
        env.run(&["schedule", "create", id, "--cron", "@daily", "--", "true"])
            .ok();
    }
    for format in ["table", "json"] {
        let list = |limit| {
            env.run(&["schedule", "list", "--limit", limit, "-o", format])
                .ok()
        };
        let more = "there are more schedules; --limit shows more";
        assert!(list("2").err.contains(more), "{format}");
        assert!(!list("3").err.contains(more), "{format}");
        assert!(!list("2").out.contains("\"c\""), "{format}");
    }
}
