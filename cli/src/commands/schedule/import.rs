//! `windlass schedule import`: creates schedules from the lines of a crontab.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass::{Client, Invalid, TaskId, schedule::Schedule, store::Error, wire::TimeForm};

use super::{
    column::Column,
    crontab::{Job, read},
    first::Machine,
    form::PlanForm,
    imported::{Imported, Matching, Wanted, Write},
    origin::{self, Origin},
    spec_args::overlap,
    texts::{self, time_texts},
    zone,
};
use crate::{
    exec,
    exit::{Exit, Failure},
    global::Global,
    hint::{Hint, quoted},
    input::{whole, without_mark},
    output::Output,
    text::one_line,
    view::text,
};

/// The most bytes of a crontab: more than cron accepts.
const MAX_BYTES: u64 = 1 << 20;

/// The crontab.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  crontab -l | windlass schedule import - --dry-run
  windlass schedule import /var/spool/cron/crontabs/me --zone Europe/Berlin
  windlass schedule import /etc/crontab --user-column

Each line becomes a schedule of tasks of the kind exec. Its name is that of a comment above it (# name: backup), or made of
its command. A line is imported once: when it has changed, the next import of the crontab updates its schedule. All lines
are right, or nothing is imported. A schedule whose line was removed from the crontab continues, and a note names it.
CRON_TZ, SHELL, other variables and % are supported; MAILTO is left out with a note. @reboot means each start of the
machine of a worker, and any worker may run it.")]
pub(super) struct Args {
    /// A crontab in the form of a user's own, or with --user-column one of the system's; - for standard input
    #[arg(value_name = "FILE")]
    file: String,

    /// Read the word before each command as the user, and leave it out: /etc/crontab and the files of /etc/cron.d
    /// have this column. The commands run as the user of the worker. A line without a user of this machine is wrong
    #[arg(long)]
    user_column: bool,

    /// A user of the machine of the crontab, for --user-column: this machine need not have it; repeat the option for more
    #[arg(long, value_name = "NAME", requires = "user_column")]
    user: Vec<String>,

    /// The time zone of lines without CRON_TZ; 'local', that of TZ or this machine, by default
    #[arg(long, value_name = "ZONE", value_parser = zone::read)]
    zone: Option<String>,

    /// What to do while an earlier run is live: as for `create`
    #[arg(long, value_name = "POLICY", default_value = "skip")]
    overlap: String,

    /// Fail a run that has not started this long after its time: as for `create`
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    start_within: Option<String>,

    /// Fail a run that has not ended this long after its time: as for `create`
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    end_within: Option<String>,

    /// Print the schedules, and change none
    #[arg(long)]
    dry_run: bool,
}

/// How many wrong lines, and how many schedules whose line was removed, are printed.
const SHOWN: usize = 20;

/// How often an import is tried again because another program came first.
const TRIES: usize = 3;

/// Imports the lines: all of them, or none.
pub(super) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let out = global.out();
    let origin = origin::of(&args.file);
    if origin.is_of_system && !args.user_column {
        let text = format!(
            "the crontab {}: its lines have a column for the user; give --user-column",
            args.file
        );
        return Err(Failure::Usage(text));
    }
    let machine = Machine::this();
    let first = |word: &str, rest: &str, path: Option<&str>| machine.first(word, rest, path);
    let column = match args.user_column {
        true => Column::User {
            first: &first,
            named: &args.user,
        },
        false => Column::None(&first),
    };
    let crontab = read(&file_text(&args.file)?, &column);
    for note in &crontab.notes {
        out.note(format!("note: {note}"));
    }
    let importer = Importer {
        zone: args.zone.clone().unwrap_or_else(zone::of_machine),
        overlap: overlap(&args.overlap)?,
        within: [
            ("start_within", args.start_within),
            ("end_within", args.end_within),
        ],
    };
    // Wrong lines are reported before a store is opened.
    let (mut wanted, mut wrong) = (Vec::<Wanted<'_>>::new(), crontab.errors);
    for job in &crontab.jobs {
        let line = format!("line {}", job.line);
        match importer.wanted(job) {
            Ok(new) => match wanted.iter().find(|other| other.job.is_same(job)) {
                Some(other) => out.note(format!(
                    "note: {line} is the same as line {}",
                    other.job.line
                )),
                None => wanted.push(new),
            },
            Err(failure) => wrong.push((job.line, failure.about(&line).to_string())),
        }
    }
    nothing_wrong(wrong, &out)?;
    if wanted.is_empty() {
        out.note("note: the crontab has no line with a time and a command; nothing was imported");
    }
    if args.zone.is_none() && crontab.jobs.iter().any(|job| job.zone.is_none()) {
        out.note(format!(
            "note: the zone of lines without CRON_TZ is {}, that of this machine; --zone takes another",
            importer.zone
        ));
    }
    let client = match args.dry_run {
        true => global.reading().await.ok(),
        false => Some(crate::opening::traced(&global.open().await?)),
    };
    let imported = match &client {
        Some(client) => write(client, &wanted, &origin, args.dry_run, &out).await?,
        None => {
            let new = wanted.iter().map(|one| {
                let id = TaskId::new(one.name.clone())?;
                one.imported(id, "would create")
            });
            new.collect::<Result<Vec<_>, Failure>>()?
        }
    };
    print(&imported, &out, &global.hint())?;
    if let Some(client) = &client {
        let ids: BTreeSet<&TaskId> = imported.iter().map(|one| &one.id).collect();
        let mut dropped = origin::present(client, &origin).await?;
        dropped.retain(|id| !ids.contains(id));
        for id in dropped.iter().take(SHOWN) {
            out.note(format!(
                "note: '{id}' is no longer in this crontab, from which it was imported, and still runs; `{}` ends it",
                global.hint().on_task("schedule delete", id)
            ));
        }
        if let Some(more @ 1..) = dropped.len().checked_sub(SHOWN) {
            out.note(format!(
                "note: and {more} more; `{}` lists all from this crontab",
                global.hint().command(&format!(
                    "list --label {}",
                    quoted(&format!("{}={}", origin::LABEL, origin.name))
                ))
            ));
        }
    }
    Ok(Exit::Ok)
}

/// Reports wrong lines in their order.
fn nothing_wrong(mut wrong: Vec<(usize, String)>, out: &Output) -> Result<(), Failure> {
    if wrong.is_empty() {
        return Ok(());
    }
    wrong.sort_by_key(|(line, _)| *line);
    for (_, reason) in wrong.iter().take(SHOWN) {
        out.complain(reason);
    }
    let more = match wrong.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(", {more} more than those above"),
    };
    let lines = match wrong.len() {
        1 => "1 line is".to_owned(),
        wrong => format!("{wrong} lines are"),
    };
    Err(Failure::Usage(format!(
        "{lines} wrong{more}; nothing was imported"
    )))
}

/// Creates the missing schedules in one transaction, and updates those whose lines have changed. Returns the outcome of each
/// line, in order.
async fn write(
    client: &Client,
    wanted: &[Wanted<'_>],
    origin: &Origin,
    dry_run: bool,
    out: &Output,
) -> Result<Vec<Imported>, Failure> {
    for tries in 1.. {
        let matching = Matching::new(client, origin, dry_run).await?;
        let (mut imported, mut wrong, mut new) = (Vec::new(), Vec::new(), 0);
        let mut transaction = client.transaction();
        for (one, outcome) in wanted.iter().zip(matching.outcomes(wanted).await?) {
            let line = one.job.line;
            match outcome {
                Ok(found) => {
                    if matches!(found.write, Write::Create) {
                        let task = client
                            .schedules()
                            .task(found.id.clone(), one.schedule.clone())?;
                        let task = task.label(origin::LABEL, &origin.name);
                        transaction =
                            transaction.submit(task.label(origin::LINE, line.to_string()));
                        new += 1;
                    }
                    imported.push(found);
                }
                Err(failure) => {
                    let about = failure.about(&format!("line {line}"));
                    wrong.push((line, about.to_string()));
                }
            }
        }
        nothing_wrong(wrong, out)?;
        if dry_run {
            return Ok(imported);
        }
        if new > 0 {
            match transaction.commit().await {
                Ok(_) => {}
                // Another program has created one of them since.
                Err(Error::Refused(_)) if tries < TRIES => continue,
                Err(error) => return Err(error.into()),
            }
        }
        for one in &imported {
            if matches!(one.write, Write::Update) {
                let schedule = Schedule::from_json(&one.spec.clone().into())?;
                let updated = client.schedules().update(one.id.clone(), schedule).await;
                updated.map_err(Failure::of_schedule)?;
            }
        }
        return Ok(imported);
    }
    Ok(Vec::new())
}

fn file_text(file: &str) -> Result<String, Failure> {
    let text = whole(file, MAX_BYTES);
    let text = text.map_err(|e| Failure::file(&format!("the crontab {file}"), &e))?;
    Ok(without_mark(&text).to_owned())
}

/// Prints a table of the lines, or a JSON document for each.
fn print(imported: &[Imported], out: &Output, hint: &Hint) -> Result<(), Failure> {
    let now = Timestamp::now();
    let mut rows = Vec::new();
    for line in imported {
        let Imported {
            id, spec, action, ..
        } = line;
        if line.differs {
            out.note(format!(
                "note: '{id}' keeps its zone and options, which are others than those of this import; \
                 `{}` changes them",
                hint.on_task("schedule update", id)
            ));
        }
        let times = line.next(now)?;
        if out.is_json() {
            let next = times.iter().map(TimeForm::from).collect();
            out.json(&PlanForm {
                id,
                action,
                spec,
                next,
            })?;
            continue;
        }
        let times = texts::upcoming(&times);
        let first = times.first().cloned();
        let first = first.unwrap_or_else(|| "at each start of a machine".to_owned());
        let cron = spec
            .as_object()
            .map(|spec| time_texts(spec, "cron").join(", "));
        rows.push(vec![
            text(id),
            text(action),
            text(cron.unwrap_or_default()),
            text(first),
            text(one_line(&texts::work(spec))),
        ]);
        for later in times.into_iter().skip(1) {
            rows.push(vec![text(""), text(""), text(""), text(later), text("")]);
        }
    }
    let header = ["ID", "ACTION", "CRON", "NEXT", "COMMAND"];
    out.narrow_table(&header, &["COMMAND", "CRON"], rows)
}

/// The options of the import, which apply to each line.
struct Importer {
    zone: String,
    overlap: Value,
    /// The durations that limit each run, by field.
    within: [(&'static str, Option<String>); 2],
}

impl Importer {
    /// Returns the checked schedule of a line.
    fn wanted<'a>(&self, job: &'a Job) -> Result<Wanted<'a>, Failure> {
        let schedule = Schedule::from_json(&self.spec(job)?.into())?;
        let name = job.name();
        let id = TaskId::new(name.clone()).map_err(|e| Invalid::new("name", e.reason()))?;
        schedule.check(id.as_str(), Timestamp::now())?;
        Ok(Wanted {
            job,
            name,
            schedule,
        })
    }

    /// Returns the schedule of a line as JSON.
    fn spec(&self, job: &Job) -> Result<Value, Failure> {
        let props = job.props();
        exec::Props::parse(&props.clone().into())?;
        let zone = job.zone.as_deref().unwrap_or(&self.zone);
        let mut spec = json!({
            // cron does not repeat a job that fails.
            "run": { "kind": exec::KIND, "props": props, "retry": { "policy": "never" } },
            "cron": [job.expression()],
            "zone": zone,
            "overlap": self.overlap,
        });
        for (field, within) in &self.within {
            if let Some(within) = within {
                spec[field] = json!(within);
            }
        }
        Ok(spec)
    }
}
