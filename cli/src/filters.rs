//! [`FilterArgs`]: the filters of commands that select tasks.

use jiff::Timestamp;
use windlass::{
    Invalid, Json, Kind, NodeName, StateKind,
    store::{Filter, StateWord, TimeRange, WaitKind},
};

use crate::{
    exit::Failure,
    parse::{past, since},
};

/// The kinds that a filter selects.
#[derive(Debug, Clone)]
pub(crate) enum KindFilter {
    Is(Kind),
    /// Every kind that begins with this text.
    Begins(String),
}

impl KindFilter {
    /// Returns whether the filter selects a kind.
    pub(crate) fn selects(&self, kind: &Kind) -> bool {
        match self {
            Self::Is(one) => one == kind,
            Self::Begins(prefix) => kind.as_str().starts_with(prefix),
        }
    }

    /// Has a filter of tasks select these kinds.
    pub(crate) fn narrow(&self, filter: &mut Filter) {
        match self {
            Self::Is(kind) => filter.kind = Some(kind.clone()),
            Self::Begins(prefix) => filter.kind_prefix = Some(prefix.clone()),
        }
    }
}

impl std::fmt::Display for KindFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Is(kind) => write!(f, "'{kind}'"),
            Self::Begins(prefix) => write!(f, "'{prefix}*'"),
        }
    }
}

/// Reads a kind, or the beginning of kinds followed by `*`.
pub(crate) fn kind_filter(text: &str) -> Result<KindFilter, Invalid> {
    match text.strip_suffix('*') {
        Some(prefix) => Ok(KindFilter::Begins(prefix.to_owned())),
        None => Kind::new(text).map(KindFilter::Is),
    }
}

/// The filters. A task has to match all of them.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct FilterArgs {
    /// Only tasks in this state; separate several states with commas. 'running' and 'queued' are the runnable tasks that a
    /// node runs, and those that wait for one
    #[arg(long = "state", value_name = "STATE", value_delimiter = ',', value_parser = state)]
    states: Vec<StateWord>,

    /// Only tasks of this kind; 'inbox/*' for every kind that begins with inbox/
    #[arg(long, value_name = "KIND", value_parser = kind_filter)]
    kind: Option<KindFilter>,

    /// Only tasks with this label
    #[arg(long = "label", value_name = "NAME[=VALUE]", value_parser = label_filter)]
    labels: Vec<(String, Option<String>)>,

    /// Only tasks whose id begins with this text
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,

    /// Only tasks claimed by this node
    #[arg(long, value_name = "NODE")]
    node: Option<NodeName>,

    /// Only tasks that a node has claimed: the running ones, and those that sleep for a short time
    #[arg(long)]
    claimed: bool,

    /// Only tasks that have a limit with this key; with --claimed, those that have a slot of it
    #[arg(long, value_name = "KEY")]
    limit_key: Option<String>,

    /// Only tasks with this text in one of their errors
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,

    /// Only tasks whose last error has this fingerprint ('fingerprint' in '-o json'), which ignores numbers, ids and
    /// paths
    #[arg(long, value_name = "FINGERPRINT")]
    fingerprint: Option<String>,

    /// Only quarantined tasks: their record cannot be read
    #[arg(long)]
    quarantined: bool,

    /// Only tasks submitted at this time (2026-11-28, yesterday, '2 hours ago', RFC 3339; days are those of this machine's
    /// time zone) or later
    #[arg(long, value_name = "TIME", value_parser = since)]
    submitted_from: Option<Timestamp>,

    /// Only tasks submitted before this time (2026-11-28, yesterday, '2 hours ago', RFC 3339; days are those of this machine's
    /// time zone)
    #[arg(long, value_name = "TIME", value_parser = past)]
    submitted_until: Option<Timestamp>,

    /// Only tasks that ended at this time (2026-11-28, yesterday, '2 hours ago', RFC 3339; days are those of this machine's
    /// time zone) or later
    #[arg(long, value_name = "TIME", value_parser = since)]
    ended_from: Option<Timestamp>,

    /// Only tasks that ended before this time (2026-11-28, yesterday, '2 hours ago', RFC 3339; days are those of this machine's
    /// time zone)
    #[arg(long, value_name = "TIME", value_parser = past)]
    ended_until: Option<Timestamp>,

    /// Only tasks with this value at this place of their props: a JSON pointer and JSON, such as '/to/country="de"'.
    /// Every task that matches the other filters is read
    #[arg(long = "props-at", value_name = "POINTER=JSON", value_parser = props_at)]
    props: Vec<(String, Json)>,
}

/// Reads a JSON pointer and the value at it. A value that is not JSON is text.
fn props_at(text: &str) -> Result<(String, Json), String> {
    let Some((first, rest)) = text.split_once('=') else {
        return Err(format!(
            "'{text}' has no value; write it like '/to/country=\"de\"'"
        ));
    };
    // A name may contain '=', so the value is the longest JSON after one.
    let ends = text.match_indices('=').map(|(at, _)| at);
    let mut parts = ends.map(|at| (&text[..at], &text[at + 1..]));
    let whole = parts.find(|(_, value)| Json::parse("value", value).is_ok());
    let (pointer, value) = whole.unwrap_or((first, rest));
    if !(pointer.is_empty() || pointer.starts_with('/')) {
        return Err(format!(
            "'{pointer}' is not a JSON pointer; it begins with '/', such as /to/country"
        ));
    }
    let value = match Json::parse("value", value) {
        Ok(value) => value,
        Err(_) => Json::from(serde_json::Value::from(value)),
    };
    Ok((pointer.to_owned(), value))
}

/// Reads a state.
fn state(text: &str) -> Result<StateWord, String> {
    text.parse().map_err(|e: Invalid| e.to_string())
}

/// Reads a label to select by, with a value or with any.
pub(crate) fn label_filter(text: &str) -> Result<(String, Option<String>), String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    if name.is_empty() {
        return Err(format!(
            "'{text}' has no name; write it like team or team=billing"
        ));
    }
    Ok((name.to_owned(), value))
}

impl FilterArgs {
    /// Converts the options to the library's filter.
    ///
    /// # Errors
    ///
    /// [`Failure::Usage`] for filters that no task can match.
    pub(crate) fn filter(&self) -> Result<Filter, Failure> {
        self.check()?;
        let mut filter = Filter::new()
            .state_words(self.states.iter().copied())
            .quarantined(self.quarantined)
            .labels(self.labels.iter().cloned())
            .claimed(self.claimed)
            .submitted(TimeRange::new(self.submitted_from, self.submitted_until))
            .ended(TimeRange::new(self.ended_from, self.ended_until))
            .props(self.props.iter().cloned());
        if let Some(kind) = &self.kind {
            kind.narrow(&mut filter);
        }
        filter.id_prefix = self.prefix.clone();
        filter.node = self.node.clone();
        filter.error = self.error.clone();
        filter.fingerprint = self.fingerprint.clone();
        filter.limit_key = self.limit_key.clone();
        Ok(filter)
    }

    /// Refuses filters that exclude each other: an empty list would look like an answer.
    fn check(&self) -> Result<(), Failure> {
        let submitted = (self.submitted_from, self.submitted_until);
        let ended = (self.ended_from, self.ended_until);
        for (name, (from, until)) in [("submitted", submitted), ("ended", ended)] {
            if from.is_some_and(|from| until.is_some_and(|until| until <= from)) {
                let ends = format!("--{name}-until is not after --{name}-from");
                return Err(none(&ends, "give a later time"));
            }
        }
        let has_ended_time = ended != (None, None);
        let is_owned = self.claimed || self.node.is_some();
        if has_ended_time && is_owned {
            let both = "--ended-from and --ended-until select tasks that have ended, --claimed and --node claimed ones";
            return Err(none(both, "leave one of them out"));
        }
        if self.quarantined && (!self.states.is_empty() || has_ended_time) {
            let both = "the state of a quarantined task cannot be read";
            let then = "leave out --quarantined, or --state and the times of ends";
            return Err(none(both, then));
        }
        if self.states.is_empty() {
            return Ok(());
        }
        if has_ended_time && !self.states.iter().any(|word| word.state().is_terminal()) {
            let both = format!("a task that is {} has not ended", self.states());
            let then = "leave out the times of ends, or give --state completed, failed or killed";
            return Err(none(&both, then));
        }
        if is_owned && self.is_queued_only() {
            let both = "no node has a task that is queued";
            return Err(none(both, "leave out --claimed and --node, or --state"));
        }
        if is_owned && self.has_ended_states() {
            let both = format!("no node has a task that is {}", self.states());
            return Err(none(&both, "leave out --claimed and --node, or --state"));
        }
        Ok(())
    }

    /// Refuses a reason of a wait that no task in the given states has.
    ///
    /// # Errors
    ///
    /// [`Failure::Usage`].
    pub(crate) fn check_waits(&self, reason: WaitKind) -> Result<(), Failure> {
        let is_running = self.states == [StateWord::Running];
        let is_owned = self.claimed || self.node.is_some() || is_running;
        if is_owned && !matches!(reason, WaitKind::Lost | WaitKind::Signal) {
            let both = format!("a claimed task does not wait for '{reason}'");
            return Err(none(
                &both,
                "leave out --claimed, --node and --state running, or give --waits lost or signal",
            ));
        }
        if self.quarantined || self.ended_from.is_some() || self.ended_until.is_some() {
            let both = "only a live task that can be read waits";
            let then = "leave out --waits, or --quarantined and the times of ends";
            return Err(none(both, then));
        }
        let has = |state| self.states.iter().any(|word| word.state() == state);
        let (sleeps, pauses) = (has(StateKind::Sleeping), has(StateKind::Paused));
        let parked = match reason {
            WaitKind::Tasks => sleeps,
            WaitKind::Signal => sleeps || pauses,
            _ => true,
        };
        if self.has_ended_states() || (!self.states.is_empty() && !parked) {
            let both = format!(
                "a task that is {} does not wait for '{reason}'",
                self.states()
            );
            return Err(none(&both, "leave out --state or --waits"));
        }
        Ok(())
    }

    pub(crate) fn has_ended_states(&self) -> bool {
        !self.states.is_empty() && self.states.iter().all(|word| word.state().is_terminal())
    }

    fn is_queued_only(&self) -> bool {
        let is_queued = |word: &StateWord| *word == StateWord::Queued;
        !self.states.is_empty() && self.states.iter().all(is_queued)
    }

    fn states(&self) -> String {
        let names: Vec<&str> = self.states.iter().map(|word| word.as_str()).collect();
        names.join(" or ")
    }
}

/// Returns the failure of filters that no task can match.
fn none(why: &str, then: &str) -> Failure {
    Failure::Usage(format!("no task can match: {why}; {then}"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        filter: FilterArgs,
    }

    fn refused(words: &str, waits: Option<WaitKind>) -> Option<String> {
        let line = Line::try_parse_from(["x"].into_iter().chain(words.split_whitespace()));
        let filter = line.unwrap().filter;
        let checked = filter.filter().map(drop);
        let checked = checked.and_then(|()| waits.map_or(Ok(()), |of| filter.check_waits(of)));
        checked.err().map(|failure| failure.to_string())
    }

    /// Regression: `failures --kind k --since 1h` found none when so many tasks of other kinds had failed.
    #[test]
    fn a_kind_narrows_a_filter() {
        for (text, kind, prefix) in [("k", Some("k"), None), ("inbox/*", None, Some("inbox/"))] {
            let mut filter = Filter::new();
            kind_filter(text).unwrap().narrow(&mut filter);
            let of = (
                filter.kind.as_ref().map(Kind::as_str),
                filter.kind_prefix.as_deref(),
            );
            assert_eq!(of, (kind, prefix));
        }
    }

    /// They listed nothing, with exit code 0.
    #[test]
    fn filters_that_no_task_can_match_are_refused() {
        for words in [
            "--claimed --state completed,failed",
            "--node n --state killed",
            "--claimed --state queued",
            "--quarantined --state failed",
            "--ended-from 2020-01-01T00:00:00Z --state runnable",
            "--ended-from 2020-01-01T00:00:00Z --claimed",
            "--ended-from 2020-01-01T00:00:00Z --ended-until 2020-01-01T00:00:00Z",
            "--submitted-from 2020-01-02T00:00:00Z --submitted-until 2020-01-01T00:00:00Z",
        ] {
            let refused = refused(words, None).expect(words);
            assert!(refused.starts_with("no task can match: "), "{refused}");
            assert!(refused.contains("; "), "{refused}");
        }
        for (words, reason) in [
            ("--state failed", WaitKind::NoNode),
            ("--state runnable", WaitKind::Tasks),
            ("--claimed", WaitKind::Full),
            ("--state running", WaitKind::Full),
            ("--quarantined", WaitKind::NoNode),
        ] {
            assert!(refused(words, Some(reason)).is_some(), "{words} {reason}");
        }
        for (words, reason) in [
            ("", Some(WaitKind::Tasks)),
            ("--state sleeping,failed", Some(WaitKind::Tasks)),
            ("--state runnable", Some(WaitKind::NoNode)),
            ("--claimed --state runnable", Some(WaitKind::Lost)),
            ("--state running", Some(WaitKind::Lost)),
            ("--state queued", Some(WaitKind::Full)),
            ("--claimed --state queued,running", None),
            ("--quarantined --claimed", None),
            ("--state failed --ended-from 2020-01-01T00:00:00Z", None),
        ] {
            assert_eq!(refused(words, reason), None, "{words}");
        }
    }
}
