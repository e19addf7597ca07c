//! `windlass doctor` on stores that are damaged.

use super::*;

#[test]
fn the_doctor_reports_a_store_that_cannot_be_opened_as_json() {
    let place = Place::new();
    place.write(
        "no.db",
        "this is no database, and long enough to be seen as none: it is text",
    );
    let doctor = ["--store", "sqlite:no.db", "doctor", "-o", "json"];
    let (code, out, err) = place.run(&doctor);
    assert_eq!(code, 4, "{out}{err}");
    let finding: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&finding["check"], &finding["verdict"]),
        (&"reachable".into(), &"error".into())
    );
}

#[test]
fn the_doctor_says_what_is_wrong_by_its_exit_code() {
    let place = filled();
    let said = ok(&place, &["doctor"], 0);
    assert!(
        said.contains("integrity") && said.contains("the file is whole"),
        "{said}"
    );
    let file = rusqlite::Connection::open(place.path("s.db")).unwrap();
    let plant = "INSERT INTO windlass_commands (ord, id, n, sent_at, command) VALUES (9000, 'c', 9001, 0, '{}')";
    file.execute(plant, ()).unwrap();
    drop(file);
    let said = ok(&place, &["doctor", "-o", "json"], 1);
    let findings = said
        .lines()
        .map(|l| serde_json::from_str::<Value>(l).unwrap());
    let wrong: Vec<Value> = findings.filter(|f| f["verdict"] == "error").collect();
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert_eq!(wrong[0]["check"], "commands");
    let said = ok(&place, &["doctor", "--repair"], 0);
    assert!(said.contains("(repaired)"), "{said}");
    ok(&place, &["doctor"], 0);
    let said = ok(&place, &["doctor", "--quota", "8 GB"], 2);
    assert!(said.contains("write it like 8GiB"), "{said}");
}

/// They were sentences, lists and options.
#[test]
fn the_commands_of_the_doctor_can_be_run() {
    let place = filled();
    let file = rusqlite::Connection::open(place.path("s.db")).unwrap();
    let spoil = "UPDATE windlass_states SET state = '{' WHERE n = (SELECT n FROM windlass_tasks WHERE id = 'b')";
    assert_eq!(file.execute(spoil, ()).unwrap(), 1);
    drop(file);
    ok(
        &place,
        &["copy", "--from", "sqlite:s.db", "--to", "sqlite:t.db"],
        1,
    );
    ok(
        &place,
        &["copy", "--from", "sqlite:t.db", "--to", "sqlite:u.db"],
        0,
    );
    let mut commands = Vec::new();
    for store in ["sqlite:s.db", "sqlite:t.db"] {
        let (_, out, _) = place.run(&["doctor", "-o", "json", "--store", store]);
        let findings = out
            .lines()
            .map(|l| serde_json::from_str::<Value>(l).unwrap());
        for finding in findings {
            assert!(finding["check"] != "copied" || finding["command"].is_null());
            commands.extend(finding["command"].as_str().map(str::to_owned));
        }
    }
    assert_eq!(
        commands,
        ["windlass list --quarantined --store sqlite:s.db"]
    );
    for command in commands {
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        let said = ok(&place, &words, 0);
        assert!(said.contains("quarantined"), "{said}");
    }
}
