//! `windlass schedule import`: creates schedules from the lines of a crontab.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use windlass::{
    Client, Invalid, Json, TaskId,
    schedule::{Schedule, ScheduleRecord, Time},
    store::Error,
    wire::TimeForm,
};

use super::{
    crontab::{Job, read},
    form::PlanForm,
    origin,
    spec::overlap,
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

Each line becomes a schedule of tasks of the kind exec, with a name made of its program and its content, so
that a line is imported once. All lines are imported, or none. A schedule whose line was removed from the crontab
continues, and a note names it. CRON_TZ, SHELL, other variables and % are supported; MAILTO is left out with a note.
@reboot means each start of the machine of a worker, and any worker may run it.")]
pub(super) struct Args {
    /// A crontab in the form of a user's own, without a column for the user; - for standard input
    #[arg(value_name = "FILE")]
    file: String,

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

    /// Print the schedules, and create none
    #[arg(long)]
    dry_run: bool,
}

/// How many wrong lines, and how many schedules whose line was removed, are printed.
const SHOWN: usize = 20;

/// How many times of each schedule are printed.
const NEXT: usize = 3;

/// How often an import is tried again because another program came first.
const TRIES: usize = 3;

/// Imports the lines: all of them, or none.
pub(super) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let out = global.out();
    let crontab = read(&file_text(&args.file)?, origin::is_user);
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
    let (mut wanted, mut wrong) = (Vec::<Wanted>::new(), crontab.errors);
    for job in &crontab.jobs {
        let line = format!("line {}", job.line);
        match importer.wanted(job) {
            Ok(new) => match wanted.iter().find(|other| other.id == new.id) {
                Some(other) => out.note(format!("note: {line} is the same as line {}", other.line)),
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
    let origin = origin::of(&args.file);
    let imported = match &client {
        Some(client) => write(client, &wanted, &origin, args.dry_run, &out).await?,
        None => {
            let new = wanted.iter().map(|wanted| wanted.imported("would create"));
            new.collect::<Result<_, _>>()?
        }
    };
    print(&imported, &out, &global.hint())?;
    if let Some(client) = &client {
        let ids = wanted.into_iter().map(|wanted| wanted.id).collect();
        let dropped = origin::dropped(client, &origin, &ids).await?;
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
                    quoted(&format!("{}={origin}", origin::LABEL))
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

/// Creates the missing schedules in one transaction. Returns the outcome of each line, in order.
async fn write(
    client: &Client,
    wanted: &[Wanted],
    origin: &str,
    dry_run: bool,
    out: &Output,
) -> Result<Vec<Imported>, Failure> {
    for tries in 1.. {
        let (mut imported, mut wrong, mut new) = (Vec::new(), Vec::new(), 0);
        let mut transaction = client.transaction();
        for wanted in wanted {
            let present = there(client, &wanted.id).await;
            match present.and_then(|there| wanted.beside(there, dry_run)) {
                Ok(one) => {
                    if one.is_new {
                        let task = client
                            .schedules()
                            .task(wanted.id.clone(), wanted.schedule.clone())?;
                        transaction = transaction.submit(task.label(origin::LABEL, origin));
                        new += 1;
                    }
                    imported.push(one);
                }
                Err(failure @ (Failure::Store(_) | Failure::Pipe)) => return Err(failure),
                Err(failure) => {
                    let about = failure.about(&format!("line {}", wanted.line));
                    wrong.push((wanted.line, about.to_string()));
                }
            }
        }
        nothing_wrong(wrong, out)?;
        if new == 0 || dry_run {
            return Ok(imported);
        }
        match transaction.commit().await {
            Ok(_) => return Ok(imported),
            // Another program has created one of them since.
            Err(Error::Refused(_)) if tries < TRIES => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Vec::new())
}

fn file_text(file: &str) -> Result<String, Failure> {
    let text = whole(file, MAX_BYTES);
    let text = text.map_err(|e| Failure::file(&format!("the crontab {file}"), &e))?;
    Ok(without_mark(&text).to_owned())
}

/// The schedule of a line.
struct Wanted {
    line: usize,
    id: TaskId,
    schedule: Schedule,
}

impl Wanted {
    fn imported(&self, action: &'static str) -> Result<Imported, Failure> {
        Ok(Imported {
            id: self.id.clone(),
            spec: fields(&self.schedule)?,
            action,
            differs: false,
            is_new: true,
        })
    }

    /// Returns the outcome of the line, given the existing schedule with its id.
    fn beside(&self, there: Option<ScheduleRecord>, dry_run: bool) -> Result<Imported, Failure> {
        let Some(there) = there else {
            return self.imported(if dry_run { "would create" } else { "created" });
        };
        let spec = fields(&there.spec?)?;
        let differs = spec != fields(&self.schedule)?;
        Ok(Imported {
            id: self.id.clone(),
            spec,
            action: "exists",
            differs,
            is_new: false,
        })
    }
}

/// A line that was imported.
struct Imported {
    id: TaskId,
    spec: Value,
    action: &'static str,
    /// Whether the stored schedule has other options than the import.
    differs: bool,
    is_new: bool,
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
            text(one_line(&line.command())),
        ]);
        for later in times.into_iter().skip(1) {
            rows.push(vec![text(""), text(""), text(""), text(later), text("")]);
        }
    }
    let header = ["ID", "ACTION", "CRON", "NEXT", "COMMAND"];
    out.narrow_table(&header, &["COMMAND", "CRON"], rows)
}

impl Imported {
    /// Returns the next times of a schedule that was created, or would be. An existing schedule has times of its
    /// own.
    fn next(&self, now: Timestamp) -> Result<Vec<Time>, Failure> {
        let schedule = Schedule::from_json(&self.spec.clone().into())?;
        Ok(schedule.preview(self.id.as_str(), now, NEXT)?)
    }

    /// Returns the line for a shell, or the command with its arguments.
    fn command(&self) -> String {
        let props = &self.spec["run"]["props"];
        let words = ["shell", "command"].map(|field| props[field].as_str().map(str::to_owned));
        let args = props["args"].as_array().into_iter().flatten();
        let args = args.filter_map(|arg| arg.as_str().map(str::to_owned));
        let words: Vec<String> = words.into_iter().flatten().chain(args).collect();
        words.join(" ")
    }
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
    fn wanted(&self, job: &Job) -> Result<Wanted, Failure> {
        let schedule = Schedule::from_json(&self.spec(job)?.into())?;
        let id = TaskId::new(job.name())?;
        schedule.check(id.as_str(), Timestamp::now())?;
        Ok(Wanted {
            line: job.line,
            id,
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

/// Returns the schedule with this id, if it exists.
async fn there(client: &Client, id: &TaskId) -> Result<Option<ScheduleRecord>, Failure> {
    match client.schedules().get(id).await {
        Ok(record) => Ok(Some(record)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the fields of a schedule that options set.
pub(super) fn fields(schedule: &Schedule) -> Result<Value, Invalid> {
    let mut spec: Map<String, Value> = Json::new("schedule", schedule)?.get("schedule")?;
    spec.remove("since");
    Ok(Value::Object(spec))
}
