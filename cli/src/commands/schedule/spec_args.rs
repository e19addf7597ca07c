//! Builds the spec of a schedule from options or JSON.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use windlass::{
    Invalid, Json,
    schedule::{Schedule, ScheduleRecord},
};

use super::{
    run_args::{inner, set},
    zone,
};
use crate::{exec, exit::Failure, input, parse::time_with_zone};

/// The times.
#[derive(Debug, Default, PartialEq, clap::Args)]
pub(super) struct TimeArgs {
    /// Read the schedule as JSON, @FILE or - for standard input. Other options override its fields; a field that
    /// is null counts as missing
    #[arg(long, value_name = "JSON")]
    pub(super) spec: Option<String>,

    /// A cron expression: 'minute hour day month weekday', optionally with a second in front and then a year at the end;
    /// @daily, @every 15m, or @reboot (each start of the machine of a worker)
    #[arg(long, value_name = "EXPRESSION")]
    cron: Vec<String>,

    /// An interval: 90s, 15m, 1h30m, 7d; or months of the calendar: 1mo, 3mo, 1y
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    every: Vec<String>,

    /// One of the times of each interval (RFC 3339); 1970-01-01T00:00:00Z by default. Months have its local time
    #[arg(long, value_name = "TIME", value_parser = time_with_zone, requires = "every")]
    anchor: Option<Timestamp>,

    /// A time (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = time_with_zone)]
    at: Vec<Timestamp>,

    /// Leave out the times of a cron expression
    #[arg(long, value_name = "EXPRESSION")]
    except_cron: Vec<String>,

    /// Leave out a time (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = time_with_zone)]
    except_at: Vec<Timestamp>,

    /// Leave out a day of the schedule's zone: 2030-12-25
    #[arg(long, value_name = "DATE")]
    except_date: Vec<String>,

    /// Leave out times before this one (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = time_with_zone)]
    start: Option<Timestamp>,

    /// Leave out times after this one (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = time_with_zone)]
    end: Option<Timestamp>,

    /// Complete the schedule after this many runs
    #[arg(long, value_name = "N")]
    count: Option<u64>,

    /// The time zone by its IANA name, such as Europe/Berlin, or 'local' for that of this machine; UTC by default
    #[arg(long, value_name = "ZONE", value_parser = zone::read)]
    zone: Option<String>,

    /// Start each run this long after its time
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    offset: Option<String>,

    /// Delay each run by at most this; the delay of each time is fixed
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    jitter: Option<String>,

    /// Fail a run that has not started this long after its time. A time that no worker handles within
    /// this duration is missed
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    start_within: Option<String>,

    /// Fail a run that has not ended this long after its time. A time that no worker handles within
    /// this duration is missed
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    end_within: Option<String>,

    /// What to do with a local time that the clocks skip: run 'after' the gap (default), or 'skip'
    /// it
    #[arg(long, value_name = "POLICY", value_parser = ["after", "skip"])]
    gap: Option<String>,

    /// What to do with a local time that the clocks repeat: run at the 'first' (default), or at
    /// 'both'
    #[arg(long, value_name = "POLICY", value_parser = ["first", "both"])]
    fold: Option<String>,

    /// What to do while an earlier run is live: 'skip' the time (default), queue one run or all runs
    /// behind it ('queue-one', 'queue-all'), 'cancel', 'kill' or 'pause' the earlier run, or allow up
    /// to N live runs ('allow:N')
    #[arg(long, value_name = "POLICY")]
    overlap: Option<String>,

    /// Of the times at which no worker was running, run 'none', the 'last' (default) or 'all'
    #[arg(long, value_name = "WHICH", value_parser = ["none", "last", "all"])]
    missed: Option<String>,

    /// Run missed times that are at most this old; 1h by default
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    within: Option<String>,

    /// Pause the schedule when a run has failed: true or false
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pause_on_failure: Option<bool>,
}

fn object(field: &'static str, json: &Json) -> Result<Map<String, Value>, Invalid> {
    json.get(field)
}

/// Sets a list that was given.
fn set_list<T: ToString>(spec: &mut Map<String, Value>, field: &str, values: &[T]) {
    if !values.is_empty() {
        let values: Vec<Value> = values.iter().map(|v| v.to_string().into()).collect();
        spec.insert(field.to_owned(), values.into());
    }
}

impl TimeArgs {
    /// Sets the fields that were given.
    pub(super) fn apply(&self, spec: &mut Map<String, Value>) -> Result<(), Failure> {
        if let Some(text) = &self.spec {
            spec.extend(object("spec", &input::json("spec", text)?)?);
        }
        set_list(spec, "cron", &self.cron);
        let anchor = self.anchor.map(|at| at.to_string());
        let every = self.every.iter().map(|interval| match &anchor {
            Some(anchor) => json!({ "interval": interval, "anchor": anchor }),
            None => json!({ "interval": interval }),
        });
        let every: Vec<Value> = every.collect();
        set(spec, "every", (!every.is_empty()).then_some(every));
        set_list(spec, "at", &self.at);
        let has_exceptions = !self.except_cron.is_empty()
            || !self.except_at.is_empty()
            || !self.except_date.is_empty();
        if has_exceptions && let Some(except) = inner(spec, "except") {
            set_list(except, "cron", &self.except_cron);
            set_list(except, "at", &self.except_at);
            set_list(except, "dates", &self.except_date);
        }
        set(spec, "start", self.start.map(|at| at.to_string()));
        set(spec, "end", self.end.map(|at| at.to_string()));
        set(spec, "count", self.count);
        set(spec, "zone", self.zone.clone());
        set(spec, "offset", self.offset.clone());
        set(spec, "jitter", self.jitter.clone());
        set(spec, "start_within", self.start_within.clone());
        set(spec, "end_within", self.end_within.clone());
        set(spec, "gap", self.gap.clone());
        set(spec, "fold", self.fold.clone());
        set(
            spec,
            "overlap",
            self.overlap.as_deref().map(overlap).transpose()?,
        );
        if (self.missed.is_some() || self.within.is_some())
            && let Some(missed) = inner(spec, "missed")
        {
            set(missed, "run", self.missed.clone());
            set(missed, "within", self.within.clone());
        }
        set(spec, "pause_on_failure", self.pause_on_failure);
        Ok(())
    }

    /// Returns whether no zone was given, by the option or in the spec.
    pub(super) fn takes_default_zone(spec: &Map<String, Value>) -> bool {
        let has_local_times = spec.contains_key("cron") || spec.contains_key("except");
        has_local_times && spec.get("zone").is_none_or(Value::is_null)
    }

    /// Returns a schedule with these times and a placeholder run.
    pub(super) fn schedule(&self) -> Result<Schedule, Failure> {
        let mut spec = Map::new();
        spec.insert("run".to_owned(), json!({ "kind": exec::KIND }));
        self.apply(&mut spec)?;
        read(spec)
    }

    /// Returns the fields of a schedule. For a spec that cannot be read: no fields if a whole spec is given;
    /// otherwise the options replace the invalid ones.
    pub(super) fn present(&self, record: &ScheduleRecord) -> Result<Map<String, Value>, Failure> {
        if record.spec.is_err() && self.spec.is_some() {
            return Ok(Map::new());
        }
        let mut spec = match (object("schedule", &record.stored), &record.spec) {
            (Err(_), Err(wrong)) => return Err(wrong.clone().into()),
            (stored, _) => stored?,
        };
        spec.remove("since");
        Ok(spec)
    }
}

/// Reads an overlap policy.
pub(super) fn overlap(text: &str) -> Result<Value, Invalid> {
    let allowed = text.strip_prefix("allow:").map(str::parse::<u32>);
    match (text, allowed) {
        ("skip" | "queue-one" | "queue-all" | "cancel" | "kill" | "pause", _) => Ok(text.into()),
        (_, Some(Ok(most))) => Ok(json!({ "allow": most })),
        _ => {
            let reason = format!(
                "'{text}' is not one of skip, queue-one, queue-all, cancel, kill, pause and allow:N"
            );
            Err(Invalid::new("overlap", reason))
        }
    }
}

/// Reads a schedule from its JSON form.
pub(super) fn read(spec: Map<String, Value>) -> Result<Schedule, Failure> {
    Ok(Schedule::from_json(&Value::Object(spec).into())?)
}
