//! Selects schedules: by ids and patterns of ids, or by labels, with a dry run and a confirmation.

use windlass::{Client, Json, TaskId, schedule::ScheduleRecord};

use super::show;
use crate::{
    exit::{Exit, Failure},
    filters::label_filter,
    output::Output,
    select::{ask, can_ask, unasked},
};

/// Ids, patterns or filters.
#[derive(Debug, clap::Args)]
pub(super) struct SelectArgs {
    /// The schedules, by id or by a pattern of ids: `*` stands for any text, and `?` for one character
    #[arg(value_name = "ID")]
    ids: Vec<String>,

    /// Only schedules with this label, or with runs that have it
    #[arg(long = "label", value_name = "NAME[=VALUE]", value_parser = label_filter, help_heading = "Filters")]
    labels: Vec<(String, Option<String>)>,

    /// Every schedule of the store
    #[arg(long, help_heading = "Filters")]
    all: bool,

    /// Show the matching schedules, and change none
    #[arg(long)]
    dry_run: bool,

    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

/// The result of the selection.
pub(super) enum Choice {
    /// Act on these schedules.
    Act(Vec<TaskId>),
    /// Do not act: a dry run, no match, or no confirmation.
    Done(Exit),
}

impl SelectArgs {
    /// Selects the schedules, and asks for confirmation if a pattern or a filter selects them. `verb` names the
    /// action. Leaves out selected schedules that are not `wanted`.
    pub(super) async fn choose(
        &self,
        client: &Client,
        out: &Output,
        verb: &str,
        wanted: fn(&ScheduleRecord) -> bool,
    ) -> Result<Choice, Failure> {
        if self.ids.is_empty() && self.labels.is_empty() && !self.all {
            return Err(Failure::Usage(format!(
                "no schedule is named; give ids, a pattern such as 'backup-*', --label, or --all to {verb} every schedule"
            )));
        }
        if self.all && !(self.ids.is_empty() && self.labels.is_empty()) {
            let text = "--all and ids or --label do not go together; give one or the other";
            return Err(Failure::Usage(text.to_owned()));
        }
        let mut ids = Vec::new();
        let mut patterns = Vec::new();
        for text in &self.ids {
            match text.contains(['*', '?']) && !is_there(client, text).await? {
                true => patterns.push(text.as_str()),
                false => ids.push(text.parse::<TaskId>()?),
            }
        }
        ids.sort_unstable();
        ids.dedup();
        if patterns.is_empty() && self.labels.is_empty() && !self.all {
            return self.named(client, out, verb, ids).await;
        }
        let records = show::all(client, usize::MAX).await?;
        let matches = |record: &ScheduleRecord| {
            let id = record.id.as_str();
            let is_named = self.ids.is_empty()
                || ids.iter().any(|one| one.as_str() == id)
                || patterns.iter().any(|pattern| is_match(pattern, id));
            is_named && self.labels.iter().all(|label| has_label(record, label))
        };
        let matching: Vec<ScheduleRecord> = records.into_iter().filter(matches).collect();
        if let Some(missing) = ids
            .iter()
            .find(|id| !matching.iter().any(|one| one.id == **id))
            && self.labels.is_empty()
        {
            // The same error as without a pattern.
            client
                .schedules()
                .get(missing)
                .await
                .map_err(Failure::of_schedule)?;
        }
        let found = matching.len();
        let selected: Vec<ScheduleRecord> = matching.into_iter().filter(wanted).collect();
        if self.dry_run {
            return dry_run(client, out, verb, selected).await;
        }
        let text = count(selected.len());
        if !self.yes && !can_ask() {
            return Err(unasked(verb, &text));
        }
        if selected.is_empty() {
            if out.is_json() {
                // A program reads one document in any case.
                out.json(&[(); 0])?;
            }
            out.note(match found {
                0 => format!("{verb}: no schedule matches"),
                found => format!(
                    "{verb}: {} match, and there is nothing to {verb}",
                    count(found)
                ),
            });
            return Ok(Choice::Done(Exit::Ok));
        }
        if !self.yes && !ask(&format!("{verb} {text}?"))? {
            out.note("nothing was changed");
            return Ok(Choice::Done(Exit::No));
        }
        Ok(Choice::Act(
            selected.into_iter().map(|one| one.id).collect(),
        ))
    }

    /// Selects schedules that were named by their ids, without a confirmation.
    async fn named(
        &self,
        client: &Client,
        out: &Output,
        verb: &str,
        ids: Vec<TaskId>,
    ) -> Result<Choice, Failure> {
        if !self.dry_run {
            return Ok(Choice::Act(ids));
        }
        let mut records = Vec::new();
        for id in ids {
            records.push(
                client
                    .schedules()
                    .get(&id)
                    .await
                    .map_err(Failure::of_schedule)?,
            );
        }
        dry_run(client, out, verb, records).await
    }
}

/// Returns whether a schedule has this text as its id, although the text looks like a pattern.
async fn is_there(client: &Client, text: &str) -> Result<bool, Failure> {
    let Ok(id) = text.parse::<TaskId>() else {
        return Ok(false);
    };
    match client.schedules().get(&id).await {
        Ok(_) => Ok(true),
        Err(
            windlass::store::Error::NotFound { .. } | windlass::store::Error::NotASchedule { .. },
        ) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Prints the schedules that would be changed.
async fn dry_run(
    client: &Client,
    out: &Output,
    verb: &str,
    records: Vec<ScheduleRecord>,
) -> Result<Choice, Failure> {
    let text = count(records.len());
    show::print_all(client, out, &records).await?;
    out.note(format!(
        "{verb}: {text} selected; nothing was changed (dry run)"
    ));
    Ok(Choice::Done(Exit::Ok))
}

/// Formats a count: `1 schedule`, `2 schedules`.
fn count(n: usize) -> String {
    match n {
        1 => "1 schedule".to_owned(),
        n => format!("{n} schedules"),
    }
}

/// Returns whether the schedule or its runs have a label.
fn has_label(record: &ScheduleRecord, (name, value): &(String, Option<String>)) -> bool {
    let is_wanted = |found: &str| value.as_ref().is_none_or(|value| value == found);
    if record
        .labels
        .get(name)
        .is_some_and(|found| is_wanted(found))
    {
        return true;
    }
    let spec = record.spec.as_ref().ok();
    let spec = spec.and_then(|spec| Json::new("schedule", spec).ok());
    let spec = spec.and_then(|spec| spec.get::<serde_json::Value>("schedule").ok());
    let of_runs = spec
        .as_ref()
        .and_then(|spec| spec["run"]["labels"].get(name)?.as_str());
    of_runs.is_some_and(is_wanted)
}

/// Returns whether a text matches a pattern, in which `*` stands for any text and `?` for one character.
fn is_match(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // The last `*`, and the place in the text at which the pattern after it was tried last.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, tried)) => {
                    star = Some((at, tried + 1));
                    p = at + 1;
                    t = tried + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_text_and_a_question_mark_one_character() {
        for (pattern, text, expected) in [
            ("backup-*", "backup-a", true),
            ("backup-*", "backup-", true),
            ("backup-*", "my-backup-a", false),
            ("*", "", true),
            ("*-a-*", "x-a-b-a-y", true),
            ("*a", "aab", false),
            ("*ab", "aab", true),
            ("r?n", "rün", true),
            ("r?n", "rn", false),
            ("a*b*c", "a-c-b", false),
        ] {
            assert_eq!(is_match(pattern, text), expected, "{pattern} {text}");
        }
    }
}
