//! Crontabs and what is read of them.

use super::{super::first::First, *};

fn read(text: &str) -> Crontab {
    super::read(text, &Column::None(&|_, _, _| First::Command))
}

#[test]
fn a_crontab_of_a_user_is_read() {
    let crontab = read(
        "# backups\n\nSHELL = /bin/bash\nPATH=\"/usr/bin:/bin\"\nMAILTO=root\n\
         30 2 * * * tar czf /tmp/home.tgz home\nCRON_TZ=Europe/Berlin\n\
         @daily  /usr/bin/mail -s hello%dear\\%friend%bye\n@reboot start\n* * * *\n@every 15m poll\n",
    );
    let [tar, mail, start, every] = crontab.jobs.as_slice() else {
        panic!("{crontab:?}");
    };
    assert_eq!(
        (tar.line, tar.cron.as_str(), &tar.zone),
        (6, "30 2 * * *", &None)
    );
    assert_eq!(
        tar.props().to_string(),
        r#"{"args":["-c","tar czf /tmp/home.tgz home"],"command":"/bin/bash","env":{"PATH":"/usr/bin:/bin"}}"#
    );
    assert!(tar.name().starts_with("cron-tar-"), "{}", tar.name());
    assert_eq!(mail.zone.as_deref(), Some("Europe/Berlin"));
    assert_eq!(mail.cron, "@daily");
    assert_eq!(mail.command, "/usr/bin/mail -s hello");
    assert_eq!(mail.stdin.as_deref(), Some("dear%friend\nbye\n"));
    assert_eq!(
        (start.cron.as_str(), start.command.as_str()),
        ("@reboot", "start")
    );
    assert_eq!(
        (every.cron.as_str(), every.command.as_str()),
        ("@every 15m", "poll")
    );
    assert_eq!(crontab.notes.len(), 1, "{:?}", crontab.notes);
    assert_eq!(crontab.errors.len(), 1);
    assert_eq!(crontab.errors[0].0, 10);
    assert!(
        crontab.errors[0]
            .1
            .starts_with("line 10: '* * * *' has no command")
    );
}

#[test]
fn a_column_for_the_user_is_named_and_left_out_if_it_is_asked_for() {
    let text = "17 * * * * root run-parts /etc/cron.hourly\n@daily ann backup\n0 0 * * * ann\n0 0 * * * tar x\n";
    let first = |word: &str, rest: &str, _: Option<&str>| match word {
        "root" | "ann" if !rest.is_empty() => First::User,
        "ann" => First::Unknown,
        _ => First::Command,
    };
    let crontab = super::read(text, &Column::None(&first));
    let lines: Vec<usize> = crontab.errors.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [1, 2], "{:?}", crontab.errors);
    assert!(
        crontab.errors[0]
            .1
            .contains("'root' is the name of a user; give --user-column")
    );
    assert_eq!(crontab.jobs.len(), 2);
    assert_eq!(
        crontab.notes,
        [
            "line 3: 'ann' is no program in PATH of this machine; if it is the user of the line, give --user-column"
        ]
    );
}

/// Regression: the first word of a line without a user was cut off as its user.
#[test]
fn a_column_for_the_user_takes_only_users() {
    let text = "17 * * * * root run-parts /etc/cron.hourly\n@daily ann backup\n0 0 * * * ann\n0 0 * * * tar x\n\
                0 1 * * * old-app sync\n0 2 * * * git tar x\n0 3 * * * git gc\n0 4 * * * A=1 x\n0 5 * * * root -x\n";
    let first = |word: &str, _: &str, _: Option<&str>| match word {
        "root" | "ann" => First::User,
        "git" => First::Either,
        "old-app" | "gc" => First::Unknown,
        _ => First::Command,
    };
    let read = |named: &[&str]| {
        let named: Vec<String> = named.iter().map(|&name| name.to_owned()).collect();
        let (first, named) = (&first, &named[..]);
        super::read(text, &Column::User { first, named })
    };
    let crontab = read(&[]);
    let found = |crontab: &Crontab| {
        let jobs = crontab
            .jobs
            .iter()
            .map(|job| (job.line, job.command.clone()));
        jobs.collect::<Vec<_>>()
    };
    let own = |lines: &[(usize, &str)]| {
        let lines = lines
            .iter()
            .map(|&(line, command)| (line, command.to_owned()));
        lines.collect::<Vec<_>>()
    };
    let taken = [
        (1, "run-parts /etc/cron.hourly"),
        (2, "backup"),
        (6, "tar x"),
        (9, "-x"),
    ];
    assert_eq!(found(&crontab), own(&taken));
    let says = [
        (3, "'ann' is the only word after the times"),
        (4, "'tar' is not a user of this machine"),
        (5, "give --user old-app if"),
        (7, "'git' may be a program, and a user of this machine"),
        (
            8,
            "'A=1' is not the name of a user (--user-column); write the user before the command",
        ),
    ];
    assert_eq!(crontab.errors.len(), says.len(), "{:?}", crontab.errors);
    for ((line, error), (at, says)) in crontab.errors.iter().zip(says) {
        assert!(*line == at && error.contains(says), "{line}: {error}");
    }
    assert_eq!(
        crontab.notes[0],
        "line 6: 'git' is a program and a user of this machine, and is taken as the user"
    );
    assert!(
        crontab.notes[1].contains("(ann, git, root) is left out"),
        "{:?}",
        crontab.notes
    );
    // Users of the machine of the crontab.
    let crontab = read(&["old-app", "git"]);
    assert_eq!(
        found(&crontab)[2..5],
        own(&[(5, "sync"), (6, "tar x"), (7, "gc")])
    );
}

#[test]
fn a_line_has_the_name_of_its_comment_or_of_its_command() {
    let crontab = read(
        "# name: nightly\n0 1 * * * backup --all\n0 2 * * * backup --all\n#Name:x\n# and more\n\nA=1\n@daily b\n\
         # name: nightly\n@hourly c\n",
    );
    let [named, by_command, other, ..] = crontab.jobs.as_slice() else {
        panic!("{crontab:?}");
    };
    assert_eq!(
        (named.name().as_str(), other.name().as_str()),
        ("nightly", "x")
    );
    let own = by_command.name();
    assert!(own.starts_with("cron-backup-"), "{own}");
    // The times are no part of the name.
    let later = read("30 5 * * * backup --all\n");
    assert_eq!(later.jobs[0].name(), own);
    assert_ne!(later.jobs[0].earlier_name(), by_command.earlier_name());
    assert!(
        crontab.errors[0]
            .1
            .contains("line 10: name: 'nightly' is also that of line 2")
    );
}

#[test]
fn a_day_of_the_month_with_a_star_restricts_beside_the_weekday() {
    let crontab = read("0 0 */2 * 1 a\n0 0 1 * 1 b\n0 0 */2 * * c\n@daily d\n0 0 1 * */2 e\n");
    let expressions: Vec<String> = crontab.jobs.iter().map(Job::expression).collect();
    let expected = [
        "0 0 */2 * +1",
        "0 0 1 * 1",
        "0 0 */2 * *",
        "@daily",
        "0 0 1 * +0,2,4,6",
    ];
    assert_eq!(expressions, expected);
}

#[test]
fn steps_of_weekdays_are_those_of_cron() {
    for (weekday, days) in [
        ("*/7", "0"),
        ("*/2", "0,2,4,6"),
        ("*/3", "0,3,6"),
        ("*/1", "0,1,2,3,4,5,6"),
        ("*/8", "*/8"),
        ("1-5", "1-5"),
    ] {
        assert_eq!(weekdays(weekday), days, "{weekday}");
    }
}

#[test]
fn the_input_of_a_command_ends_with_one_line_break() {
    for (text, stdin) in [
        ("cat", None),
        ("cat%", None),
        ("cat%a", Some("a\n")),
        ("cat%a%", Some("a\n")),
        ("cat%a%%", Some("a\n\n")),
        ("cat%%", Some("\n")),
        ("cat%a\\%", Some("a%\n")),
    ] {
        assert_eq!(
            percent(text),
            ("cat".to_owned(), stdin.map(str::to_owned)),
            "{text}"
        );
    }
}

#[test]
fn a_command_with_an_equals_sign_is_no_variable() {
    let crontab = read("0 0 * * * A=1 run\n");
    assert_eq!(crontab.jobs[0].command, "A=1 run");
    assert_eq!(
        crontab.jobs[0].props().to_string(),
        r#"{"shell":"A=1 run"}"#
    );
}
