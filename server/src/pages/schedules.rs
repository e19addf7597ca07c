//! The list of schedules.

use std::collections::BTreeMap;

use jiff::Timestamp;
use maud::{Markup, html};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};

use super::{
    Answer, cli,
    form::{Fields, encoded},
    frame::{Page, Place},
    text,
};

/// How many schedules a page has.
const LIMIT: &str = "50";
/// How many expressions of a schedule a row has.
const EXPRESSIONS: usize = 3;

/// A schedule.
#[derive(Deserialize)]
pub(super) struct Record {
    pub(super) id: String,
    pub(super) state: Option<String>,
    #[serde(default, deserialize_with = "if_shown")]
    pub(super) spec: Option<Spec>,
    pub(super) note: Option<String>,
    pub(super) wrong: Option<String>,
    pub(super) waits: Option<String>,
    pub(super) next: Option<Time>,
    #[serde(default)]
    pub(super) upcoming: Option<Vec<Time>>,
    #[serde(default)]
    pub(super) left_out: Vec<LeftOut>,
    #[serde(default)]
    pub(super) skipped: Vec<Timestamp>,
    pub(super) counts: BTreeMap<String, u64>,
    pub(super) last_run: Option<LastRun>,
    #[serde(default)]
    pub(super) runs: Vec<String>,
}

/// When a schedule submits which runs. Each part may be masked.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Spec {
    #[serde(deserialize_with = "if_shown")]
    pub(super) cron: Vec<String>,
    #[serde(deserialize_with = "if_shown")]
    pub(super) every: Vec<Every>,
    #[serde(deserialize_with = "if_shown")]
    pub(super) at: Vec<Timestamp>,
    #[serde(deserialize_with = "if_shown")]
    pub(super) zone: Option<String>,
    #[serde(deserialize_with = "if_shown")]
    pub(super) description: Option<String>,
    #[serde(deserialize_with = "if_shown")]
    pub(super) run: Run,
}

/// Reads a value. In place of one that is masked stands another one, which counts as none.
fn if_shown<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let value = serde_json::Value::deserialize(from)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

#[derive(Deserialize)]
pub(super) struct Every {
    interval: String,
}

#[derive(Deserialize, Default)]
pub(super) struct Run {
    #[serde(default, deserialize_with = "if_shown")]
    pub(super) kind: String,
}

#[derive(Deserialize)]
pub(super) struct Time {
    pub(super) nominal: Timestamp,
    pub(super) due: Timestamp,
    pub(super) local: String,
}

#[derive(Deserialize)]
pub(super) struct LeftOut {
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    pub(super) times: u64,
    pub(super) why: serde_json::Value,
}

#[derive(Deserialize)]
pub(super) struct LastRun {
    pub(super) id: String,
    pub(super) shown: String,
    pub(super) error: Option<String>,
}

#[derive(Deserialize)]
struct Records {
    schedules: Vec<Record>,
    next: Option<String>,
}

/// Returns a cron expression in words, where they are short; else the expression.
fn cron_in_words(cron: &str) -> String {
    const DAYS: [&str; 7] = [
        "Sunday",
        "Monday",
        "Tuesday",
        "Wednesday",
        "Thursday",
        "Friday",
        "Saturday",
    ];
    let fields: Vec<&str> = cron.split_whitespace().collect();
    let [minute, hour, "*", "*", day] = fields.as_slice() else {
        return cron.to_owned();
    };
    let number = |text: &str| text.parse::<u8>().ok();
    let step = |text: &str| text.strip_prefix("*/").and_then(number);
    match (number(minute), number(hour), *minute, *hour, *day) {
        (Some(m), Some(h), .., "*") => format!("every day at {h:02}:{m:02}"),
        (Some(m), Some(h), .., day) => {
            match number(day).and_then(|day| DAYS.get(usize::from(day) % 7)) {
                Some(name) => format!("every {name} at {h:02}:{m:02}"),
                None => cron.to_owned(),
            }
        }
        (Some(m), None, _, "*", "*") => format!("every hour at minute {m}"),
        (None, None, "*", "*", "*") => "every minute".to_owned(),
        (None, None, minute, "*", "*") => match step(minute) {
            Some(n) => format!("every {n} minutes"),
            None => cron.to_owned(),
        },
        _ => cron.to_owned(),
    }
}

impl Spec {
    /// Returns when the schedule submits runs, in words.
    pub(super) fn words(&self) -> String {
        let cron = self.cron.iter().map(|cron| cron_in_words(cron));
        let every = self
            .every
            .iter()
            .map(|every| format!("every {}", every.interval));
        let at = self.at.iter().map(|at| format!("at {at}"));
        let all: Vec<String> = cron.chain(every).chain(at).collect();
        let mut words = all
            .iter()
            .take(EXPRESSIONS)
            .cloned()
            .collect::<Vec<_>>()
            .join("; ");
        if all.len() > EXPRESSIONS {
            words.push_str(&format!("; and {} more", all.len() - EXPRESSIONS));
        }
        if !self.cron.is_empty() {
            words.push_str(&format!(" ({})", self.zone.as_deref().unwrap_or("UTC")));
        }
        words
    }
}

pub(super) async fn show(page: Page) -> Answer {
    let query = page.query()?;
    let mut asked = Fields::default().with("limit", LIMIT);
    if let Some(cursor) = query.get("cursor") {
        asked = asked.with("cursor", cursor);
    }
    let read: Records = page
        .api
        .get(&format!("/v1/schedules{}", asked.query()))
        .await?;
    let body = html! {
        h1 { "Schedules" }
        @if read.schedules.is_empty() {
            p.none { "There is no schedule. This command creates one:" }
            pre.command { "windlass schedule create nightly --cron '30 2 * * *' -- backup" }
        } @else {
            table.rows {
                thead { tr { th { "State" } th { "Schedule" } th.w { "Runs" } th { "Next" } th { "Last run" } } }
                tbody { @for one in &read.schedules { (row(&page, one)) } }
            }
        }
        nav.pages aria-label="Pages of the list" {
            @if query.get("cursor").is_some() { a href={ (page.base) "/schedules" } { "First page" } }
            @if let Some(cursor) = &read.next { a rel="next" href={ (page.base) "/schedules?cursor=" (encoded(cursor)) } { "After →" } }
        }
    };
    let line = cli::line(&["windlass", "schedule", "list"]);
    Ok(page.show((Place::Schedules, "Schedules"), &line, &body))
}

fn row(page: &Page, one: &Record) -> Markup {
    html! {
        tr data-key=(one.id) {
            td { (text::state(one.state.as_deref().unwrap_or("quarantined"))) }
            td {
                a.id href={ (page.base) "/schedules/" (encoded(&one.id)) } { (text::name(&one.id)) }
                @if let Some(spec) = &one.spec { p.dim { bdi { (text::cut(&spec.words(), 200)) } } }
                @if let Some(wrong) = &one.wrong { p.error { bdi { (text::cut(wrong, 200)) } } }
            }
            td.w { @if let Some(spec) = &one.spec { (text::name(&spec.run.kind)) } }
            td {
                @if let Some(next) = &one.next { (page.ago(next.due)) } @else { span.dim { "none" } }
                // A schedule may overlap on purpose.
                @for (why, class) in [("missed", "error"), ("refused", "error"), ("overlapped", "dim")] {
                    @if let Some(times) = one.counts.get(why).filter(|times| **times > 0) { p class=(class) { (why) " " (text::grouped(*times)) } }
                }
            }
            td { @if let Some(run) = &one.last_run { (text::state(&run.shown)) " " (page.task(&run.id)) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_expressions_are_words_and_others_stay() {
        for (cron, words) in [
            ("30 2 * * *", "every day at 02:30"),
            ("0 * * * *", "every hour at minute 0"),
            ("*/15 * * * *", "every 15 minutes"),
            ("* * * * *", "every minute"),
            ("0 9 * * 1", "every Monday at 09:00"),
            ("0 9 * * 1-5", "0 9 * * 1-5"),
            ("0 9 1 * *", "0 9 1 * *"),
            ("@daily", "@daily"),
            ("5 */2 * * *", "5 */2 * * *"),
        ] {
            assert_eq!(cron_in_words(cron), words);
        }
    }

    /// A page for a schedule whose values are masked failed as a whole.
    #[test]
    fn a_schedule_with_masked_values_is_read_without_them() {
        const MASKED: &str = r#"{"$windlass":"masked"}"#;
        let read = |spec: &str| -> Record {
            let record = format!(r#"{{"id":"s","counts":{{}},"spec":{spec}}}"#);
            serde_json::from_str(&record).unwrap_or_else(|e| panic!("{spec}: {e}"))
        };
        let spec = format!(
            r#"{{"cron":["@daily"],"every":{MASKED},"description":{MASKED},"zone":"Europe/Oslo","run":{{"kind":{MASKED}}}}}"#
        );
        let spec = read(&spec).spec.unwrap_or_default();
        assert_eq!(spec.words(), "@daily (Europe/Oslo)");
        assert_eq!((spec.description, spec.run.kind.as_str()), (None, ""));
        let all = read(MASKED).spec.unwrap_or_default();
        assert_eq!(all.words(), "");
        assert_eq!(read("null").spec.map(|spec| spec.words()), None);
    }
}
