//! Stores of other versions, stores with other names, files that are not stores, and errors about
//! existing ids.

use crate::env::Env;

#[test]
fn a_file_of_a_development_version_is_refused_and_stays_as_it_is() {
    let env = Env::new();
    env.run(&["submit", "k", "--id", "a"]).ok();
    env.sql("UPDATE windlass_meta SET name = 'schema', value = 14 WHERE name = 'version'");
    let before = std::fs::read(env.path("store.db")).unwrap();
    for words in [
        &["list"][..],
        &["doctor"],
        &["submit", "k", "--id", "b"],
        &["worker", "--until-idle"],
    ] {
        let says = [
            "could not open '",
            "written by a development version of windlass (schema 14) before 0.1; ",
        ];
        env.run(words).fails(4, &says);
        let now = std::fs::read(env.path("store.db")).unwrap();
        assert_eq!(now, before, "{words:?}");
    }
}

#[test]
fn a_store_is_not_copied_to_itself_by_another_name() {
    let env = Env::new();
    env.run(&["submit", "k", "--id", "a"]).ok();
    let (folder, from) = (env.path(""), env.url());
    let around = format!("sqlite:{folder}/../{}/store.db", env.name());
    std::fs::hard_link(env.path("store.db"), env.path("link.db")).unwrap();
    for to in [
        from.clone(),
        around,
        format!("sqlite:{}", env.path("link.db")),
    ] {
        env.run(&["copy", "--from", &from, "--to", &to])
            .fails(2, &["is the store that is to be copied; name another one"]);
    }
}

#[test]
fn a_file_without_an_end_and_a_folder_are_named() {
    let env = Env::new();
    env.run(&["--config", "/dev/zero", "list"])
        .fails(2, &["/dev/zero", "has more than 1048576 bytes"]);
    let folder = env.path("folder");
    std::fs::create_dir(&folder).unwrap();
    for words in [
        &["--config", &folder, "list"][..],
        &["apply", &folder],
        &["submit", "--lines", &folder],
        &["submit", "k", "--props", &format!("@{folder}")],
    ] {
        env.run(words)
            .fails(2, &[&folder, "is a folder; name a file"]);
    }
}

#[test]
fn watch_names_the_commands_that_are_sent() {
    let env = Env::new();
    env.run(&["submit", "k", "--id", "a"]).ok();
    env.run(&["pause", "a"]).ok();
    env.run(&["signal", "a", "approve"]).ok();
    let words = ["watch", "--after", "0", "--limit", "3"];
    let ran = env.run(&words).ok();
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(
        lines[1].contains(" sent, by ") && lines[1].ends_with(": pause"),
        "{ran:?}"
    );
    assert!(lines[2].ends_with(": signal 'approve'"), "{ran:?}");
}

#[test]
fn a_taken_id_says_what_differs() {
    let env = Env::new();
    env.run(&["submit", "k", "--id", "a", "--props", "1"]).ok();
    for (words, says) in [
        (&["k", "--props", "2"][..], "its props are others"),
        (
            &["k", "--props", "2", "--idempotent"],
            "its props are others",
        ),
        (&["other", "--props", "1"], "its kind is 'k', not 'other'"),
        (&["k", "--props", "1"], "its kind and props are the same"),
    ] {
        let words = [&["submit", "--id", "a"][..], words].concat();
        env.run(&words).fails(1, &["exists already", says]);
    }
}

#[test]
fn a_mistyped_parameter_of_a_url_makes_no_file() {
    let env = Env::new();
    let url = format!("{}?synchronus=normal", env.url());
    for words in [
        &["submit", "--", "true"][..],
        &["list"],
        &["worker", "--until-idle"],
    ] {
        let says = ["unknown parameter 'synchronus'", "synchronous=normal"];
        env.run(&[words[..1].as_ref(), &["--store", &url], &words[1..]].concat())
            .fails(2, &says);
    }
    let folder = std::fs::read_dir(env.path("")).unwrap();
    assert_eq!(folder.count(), 0, "nothing was made");
}
