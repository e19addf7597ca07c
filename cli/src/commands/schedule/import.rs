//! `windlass schedule import`: schedules of the lines of a crontab.

use serde_json::{Map, Value, json};
use windlass::{
    Client, Invalid, Json, TaskId,
    schedule::{Schedule, ScheduleRecord},
    store::Error,
};

use super::{
    crontab::{Job, read},
    is_taken,
    spec::overlap,
};
use crate::{
    exec,
    exit::{Exit, Failure},
    global::Global,
    hint::Hint,
    input::whole,
    output::Output,
};

/// The most bytes of a crontab: more than cron takes.
const MAX_BYTES: u64 = 1 << 20;

/// The crontab.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  crontab -l | windlass schedule import - --dry-run
  windlass schedule import /var/spool/cron/crontabs/me --zone Europe/Berlin

Each line becomes a schedule of tasks of the kind exec, with a name made of its program and its content, so
that a line is imported once. CRON_TZ, SHELL, other variables and % are understood; MAILTO and @reboot are
left out with a note.")]
pub(super) struct Args {
    /// A crontab in the form of a user's own, without a column for the user; - for standard input
    #[arg(value_name = "FILE")]
    file: String,

    /// The time zone of lines without CRON_TZ; that of TZ or this machine by default
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,

    /// While an earlier run is live: as for `create`
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

/// Imports the lines. A line that is wrong creates nothing and ends the import with the exit code 1.
pub(super) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let out = global.out();
    let crontab = read(&text(&args.file)?);
    for note in &crontab.notes {
        out.note(format!("note: {note}"));
    }
    for error in &crontab.errors {
        out.complain(error);
    }
    let mut failed = !crontab.errors.is_empty();
    let overlap = overlap(&args.overlap)?;
    let zone = args.zone.unwrap_or_else(local_zone);
    let client = match args.dry_run {
        true => global.reading().await.ok(),
        false => Some(Client::new(&global.open().await?)),
    };
    let importer = Importer {
        zone,
        overlap,
        within: [
            ("start_within", args.start_within),
            ("end_within", args.end_within),
        ],
        client,
        dry_run: args.dry_run,
    };
    for job in &crontab.jobs {
        match importer.import(job).await {
            Ok(imported) => imported.print(&out, &global.hint())?,
            Err(failure @ (Failure::Store(_) | Failure::Pipe)) => return Err(failure),
            Err(failure) => {
                out.complain(failure.about(&format!("line {}", job.line)));
                failed = true;
            }
        }
    }
    Ok(if failed { Exit::No } else { Exit::Ok })
}

/// Returns the zone of this machine, which TZ overrides: that of cron.
fn local_zone() -> String {
    let variable = std::env::var("TZ").ok().filter(|zone| !zone.is_empty());
    let link = || std::fs::read_link("/etc/localtime").ok();
    let zone = variable.or_else(|| link()?.into_os_string().into_string().ok());
    zone.map_or_else(|| "UTC".to_owned(), |zone| named_zone(&zone))
}

/// Returns the name of a zone that `TZ` or the link `/etc/localtime` gives: `:/usr/share/zoneinfo/Asia/Tokyo`.
fn named_zone(zone: &str) -> String {
    let zone = zone.strip_prefix(':').unwrap_or(zone);
    let name = zone.rsplit_once("zoneinfo/").map_or(zone, |(_, name)| name);
    match name {
        "Etc/UTC" | "/etc/localtime" => "UTC".to_owned(),
        name => name.to_owned(),
    }
}

fn text(file: &str) -> Result<String, Failure> {
    whole(file, MAX_BYTES).map_err(|e| Failure::file(&format!("the crontab {file}"), &e))
}

/// A line that was imported.
struct Imported {
    id: TaskId,
    spec: Value,
    action: &'static str,
    /// Whether the stored schedule has other options than those of the import.
    differs: bool,
}

impl Imported {
    fn print(&self, out: &Output, hint: &Hint) -> Result<(), Failure> {
        let Self {
            id, spec, action, ..
        } = self;
        if self.differs {
            out.note(format!(
                "note: '{id}' keeps its zone and options, which are others than those of this import; \
                 `{}` changes them",
                hint.on_task("schedule update", id)
            ));
        }
        match out.is_json() {
            true => out.json(&json!({ "id": id, "action": action, "spec": spec })),
            false => out.line(format!("{id}: {action}  {spec}")),
        }
    }
}

/// What the options say about each line.
struct Importer {
    zone: String,
    overlap: Value,
    /// The durations that bound each run, by their fields.
    within: [(&'static str, Option<String>); 2],
    client: Option<Client>,
    dry_run: bool,
}

impl Importer {
    async fn import(&self, job: &Job) -> Result<Imported, Failure> {
        let schedule = Schedule::from_json(&self.spec(job)?.into())?;
        let id = TaskId::new(job.name())?;
        if let Some(client) = &self.client
            && let Some(there) = there(client, &id).await?
        {
            return exists(id, there, &schedule);
        }
        let spec = fields(&schedule)?;
        let action = match (&self.client, self.dry_run) {
            (Some(client), false) => match client.schedules().create(&id, schedule.clone()).await {
                Ok(_) => "created",
                Err(error) if is_taken(&error) => {
                    let there = client.schedules().get(&id).await?;
                    return exists(id, there, &schedule);
                }
                Err(error) => return Err(error.into()),
            },
            _ => {
                schedule.check(id.as_str(), jiff::Timestamp::now())?;
                "would create"
            }
        };
        Ok(Imported {
            id,
            spec,
            action,
            differs: false,
        })
    }

    /// Returns the schedule of a line as JSON.
    fn spec(&self, job: &Job) -> Result<Value, Failure> {
        let props = job.props();
        exec::Props::parse(&props.clone().into())?;
        let zone = job.zone.as_deref().unwrap_or(&self.zone);
        let mut spec = json!({
            // cron repeats no job that fails.
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

/// Returns the schedule with this id, if there is one.
async fn there(client: &Client, id: &TaskId) -> Result<Option<ScheduleRecord>, Failure> {
    match client.schedules().get(id).await {
        Ok(record) => Ok(Some(record)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Reports a line that was imported before, with what is stored.
fn exists(id: TaskId, there: ScheduleRecord, wanted: &Schedule) -> Result<Imported, Failure> {
    let spec = fields(&there.spec?)?;
    let differs = spec != fields(wanted)?;
    Ok(Imported {
        id,
        spec,
        action: "exists",
        differs,
    })
}

/// Returns the fields of a schedule that options set.
fn fields(schedule: &Schedule) -> Result<Value, Invalid> {
    let mut spec: Map<String, Value> = Json::new("schedule", schedule)?.get("schedule")?;
    spec.remove("since");
    Ok(Value::Object(spec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zone_is_the_name_in_a_path() {
        assert_eq!(named_zone("/usr/share/zoneinfo/Asia/Tokyo"), "Asia/Tokyo");
        assert_eq!(named_zone(":Europe/Berlin"), "Europe/Berlin");
        assert_eq!(named_zone("Etc/UTC"), "UTC");
    }
}
