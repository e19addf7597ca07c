//! The lines of a crontab beside the schedules that exist: which of them is that of a line.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use windlass::{
    Client, Invalid, Json, TaskId,
    schedule::{Schedule, ScheduleRecord, Time},
    store::Error,
};

use super::{
    crontab::Job,
    origin::{self, Origin},
};
use crate::exit::Failure;

/// How many times of each schedule are printed.
const NEXT: usize = 3;

/// The fields of the props that a line sets.
const OF_LINE: [&str; 5] = ["shell", "command", "args", "env", "stdin"];

/// How many schedules with the name of a line are looked at for a free name, at most.
const MOST_NAMES: usize = 1000;

/// The schedule of a line.
pub(super) struct Wanted<'a> {
    pub(super) job: &'a Job,
    /// Its id if it is new.
    pub(super) name: String,
    pub(super) schedule: Schedule,
}

/// A line beside the schedules that exist.
pub(super) struct Imported {
    pub(super) id: TaskId,
    /// The fields of the schedule after the import.
    pub(super) spec: Value,
    pub(super) action: &'static str,
    /// Whether the stored schedule has other options than the import.
    pub(super) differs: bool,
    /// What the import does.
    pub(super) write: Write,
}

/// What an import does for a line.
pub(super) enum Write {
    Nothing,
    Create,
    Update,
}

impl Imported {
    /// Returns the next times of a schedule that was created, or would be. An existing schedule has times of its
    /// own.
    pub(super) fn next(&self, now: Timestamp) -> Result<Vec<Time>, Failure> {
        let schedule = Schedule::from_json(&self.spec.clone().into())?;
        Ok(schedule.preview(self.id.as_str(), now, NEXT)?)
    }
}

impl Wanted<'_> {
    /// Returns whether a schedule does at its times what the line says.
    fn has_command_of(&self, spec: &Value) -> bool {
        let (own, other) = (self.job.props(), &spec["run"]["props"]);
        OF_LINE.iter().all(|field| own[*field] == other[*field])
    }

    fn has_times_of(&self, spec: &Value) -> bool {
        let zone = self.job.zone.as_ref();
        spec["cron"] == json!([self.job.expression()])
            && zone.is_none_or(|zone| spec["zone"] == json!(zone))
    }

    /// Returns whether a schedule is that of the line as it is.
    fn is_of(&self, spec: &Value) -> bool {
        self.has_command_of(spec) && self.has_times_of(spec)
    }

    fn has_program_of(&self, spec: &Value) -> bool {
        let props = &spec["run"]["props"];
        let line = match &props["shell"] {
            Value::String(line) => line.as_str(),
            _ => props["args"][1].as_str().unwrap_or_default(),
        };
        line.split_whitespace().next() == self.job.command.split_whitespace().next()
    }

    /// Returns the fields of a schedule with the times and the command of the line.
    fn updated(&self, spec: &Value) -> Value {
        let mut spec = spec.clone();
        spec["cron"] = json!([self.job.expression()]);
        if let Some(zone) = &self.job.zone {
            spec["zone"] = json!(zone);
        }
        let mut props: Map<String, Value> = match spec["run"]["props"].take() {
            Value::Object(props) => props,
            _ => Map::new(),
        };
        props.retain(|name, _| !OF_LINE.contains(&name.as_str()));
        if let Value::Object(own) = self.job.props() {
            props.extend(own);
        }
        spec["run"]["props"] = Value::Object(props);
        spec
    }
}

/// A schedule of the crontab that no line has taken yet.
struct Present {
    id: TaskId,
    spec: Value,
    /// The number of its line when it was created.
    line: Option<usize>,
}

/// A sign that a schedule is of a line.
type Sign<'s> = &'s dyn Fn(&Wanted<'_>, &Present) -> bool;

/// Decides for each line what the import does: which schedule is its own, or that a new one is.
pub(super) struct Matching<'a> {
    client: &'a Client,
    origin: &'a Origin,
    /// The schedules of the crontab, in the order of their submits.
    present: Vec<Present>,
    taken: BTreeSet<TaskId>,
    dry_run: bool,
}

impl<'a> Matching<'a> {
    pub(super) async fn new(
        client: &'a Client,
        origin: &'a Origin,
        dry_run: bool,
    ) -> Result<Self, Failure> {
        let mut present = Vec::new();
        for id in origin::present(client, origin).await? {
            let Some(record) = there(client, &id).await? else {
                continue;
            };
            let line = record.labels.get(origin::LINE);
            let line = line.and_then(|line| line.parse().ok());
            // One that cannot be read is left alone.
            if let Ok(schedule) = record.spec {
                let spec = fields(&schedule)?;
                present.push(Present { id, spec, line });
            }
        }
        Ok(Self {
            client,
            origin,
            present,
            taken: BTreeSet::new(),
            dry_run,
        })
    }

    /// Returns the outcome of each line.
    pub(super) async fn outcomes(
        mut self,
        wanted: &[Wanted<'_>],
    ) -> Result<Vec<Result<Imported, Failure>>, Failure> {
        let mut found: Vec<Option<Present>> = wanted.iter().map(|_| None).collect();
        // From the surest sign that a schedule is of a line to the weakest.
        let is_file = self.origin.is_file;
        let signs: [Sign<'_>; 7] = [
            &|one, there| one.job.name.as_deref() == Some(there.id.as_str()),
            &|one, there| one.is_of(&there.spec),
            &|one, there| one.has_command_of(&there.spec),
            &|one, there| {
                let has = one.has_program_of(&there.spec) || one.has_times_of(&there.spec);
                there.line == Some(one.job.line) && has
            },
            &|one, there| one.has_times_of(&there.spec) && one.has_program_of(&there.spec),
            &|one, there| is_file && there.line == Some(one.job.line),
            &|one, there| one.has_program_of(&there.spec),
        ];
        for sign in signs {
            for (one, found) in wanted.iter().zip(&mut found) {
                if found.is_none()
                    && let Some(at) = self.present.iter().position(|there| sign(one, there))
                {
                    *found = Some(self.present.remove(at));
                }
            }
        }
        let ids = found.iter().flatten().map(|there| there.id.clone());
        self.taken.extend(ids);
        let mut outcomes = Vec::new();
        for (one, found) in wanted.iter().zip(found) {
            let outcome = match found {
                Some(there) => self.beside(one, there.id, &there.spec),
                None => self.new_one(one).await,
            };
            match outcome {
                Err(failure @ (Failure::Store(_) | Failure::Pipe)) => return Err(failure),
                outcome => outcomes.push(outcome),
            }
        }
        Ok(outcomes)
    }

    /// Returns the outcome of a line that has a schedule.
    fn beside(&self, one: &Wanted<'_>, id: TaskId, spec: &Value) -> Result<Imported, Failure> {
        if one.is_of(spec) {
            let differs = *spec != fields(&one.schedule)?;
            return Ok(Imported {
                id,
                spec: spec.clone(),
                action: "exists",
                differs,
                write: Write::Nothing,
            });
        }
        let spec = one.updated(spec);
        let schedule = Schedule::from_json(&spec.clone().into())?;
        schedule.check(id.as_str(), Timestamp::now())?;
        Ok(Imported {
            id,
            spec,
            action: if self.dry_run {
                "would update"
            } else {
                "updated"
            },
            differs: false,
            write: Write::Update,
        })
    }

    /// Returns the outcome of a line without a schedule of this crontab: another crontab may have the same line.
    async fn new_one(&mut self, one: &Wanted<'_>) -> Result<Imported, Failure> {
        let earlier = TaskId::new(one.job.earlier_name())?;
        for n in 0..MOST_NAMES {
            let id = match n {
                0 => earlier.clone(),
                1 => TaskId::new(one.name.clone())?,
                n => TaskId::new(format!("{}-{n}", one.name))?,
            };
            if self.taken.contains(&id) {
                continue;
            }
            match there(self.client, &id).await? {
                None if n == 0 => {}
                None => {
                    self.taken.insert(id.clone());
                    let action = if self.dry_run {
                        "would create"
                    } else {
                        "created"
                    };
                    return one.imported(id, action);
                }
                Some(record) => {
                    let spec = fields(&record.spec?)?;
                    if one.is_of(&spec) {
                        self.taken.insert(id.clone());
                        return self.beside(one, id, &spec);
                    }
                    if one.job.name.is_some() && n == 1 {
                        return Err(Failure::No(format!(
                            "schedule '{id}' exists, and was not imported from this crontab; give the line another name, \
                             or delete the schedule first"
                        )));
                    }
                }
            }
        }
        Err(Failure::No(format!(
            "no name for the line is free; give it one in a comment above it: # name: {}",
            one.name
        )))
    }
}

impl Wanted<'_> {
    /// Returns the outcome of a line whose schedule is new.
    pub(super) fn imported(&self, id: TaskId, action: &'static str) -> Result<Imported, Failure> {
        Ok(Imported {
            id,
            spec: fields(&self.schedule)?,
            action,
            differs: false,
            write: Write::Create,
        })
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
