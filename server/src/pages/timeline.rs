//! The timeline of a task: states, claims and fences, with repeated runs collapsed.

use maud::{Markup, html};

use super::{frame::Page, record::Change, text};

/// The longest run that is noticed when it is repeated, in changes.
const LONGEST: usize = 6;
/// How often a run is repeated at least to be collapsed.
const REPEATS: usize = 3;
/// The most characters of a note: all of them.
const NOTE: usize = 500;

/// A part of the timeline.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    /// One change, by its place.
    One(usize),
    /// A run of changes that is repeated.
    Repeated {
        first: usize,
        length: usize,
        times: usize,
    },
}

/// Returns what repeated changes have in common: all but their times and fences.
fn likeness(change: &Change) -> impl PartialEq + '_ {
    (
        (&change.what, &change.message, &change.from, &change.to),
        (&change.by, &change.abandoned, change.command, &change.text),
        &change.note,
    )
}

/// Returns the changes with repeated runs as one part each: the run that covers the most changes first.
fn parts(changes: &[Change]) -> Vec<Part> {
    let (mut parts, mut at) = (Vec::new(), 0);
    while at < changes.len() {
        let best = (1..=LONGEST).map(|length| (repeats(&changes[at..], length) * length, length));
        match best.max_by_key(|(covered, length)| (*covered, std::cmp::Reverse(*length))) {
            Some((covered, length)) if covered / length >= REPEATS => {
                let times = covered / length;
                parts.push(Part::Repeated {
                    first: at,
                    length,
                    times,
                });
                at += covered;
            }
            _ => {
                parts.push(Part::One(at));
                at += 1;
            }
        }
    }
    parts
}

/// Returns how often the first changes are repeated.
fn repeats(changes: &[Change], length: usize) -> usize {
    let mut all = changes.chunks_exact(length);
    let Some(first) = all.next() else {
        return 0;
    };
    let is_same = |other: &&[Change]| {
        let mut pairs = first.iter().zip(other.iter());
        pairs.all(|(one, other)| likeness(one) == likeness(other))
    };
    1 + all.take_while(is_same).count()
}

/// Shows the changes, the newest first.
pub(super) fn show(page: &Page, changes: &[Change]) -> Markup {
    html! {
        @if changes.is_empty() { p.none { "Nothing has happened since it was submitted, or its history is no longer kept." } }
        ol.timeline {
            @for part in parts(changes).iter().rev() {
                @match part {
                    Part::One(at) => (line(page, &changes[*at])),
                    Part::Repeated { first, length, times } => (repeated(page, &changes[*first..first + length * times], (*length, *times))),
                }
            }
        }
    }
}

fn repeated(page: &Page, changes: &[Change], (length, times): (usize, usize)) -> Markup {
    let words: Vec<String> = changes[..length].iter().map(word).collect();
    html! {
        li.repeated {
            @if let (Some(first), Some(last)) = (changes.first(), changes.last()) {
                details data-key={ "run-" (first.at) } {
                    summary { strong { "× " (times) } " " bdi { (words.join(" → ")) } span.dim { ", " (page.moment(first.at)) " to " (page.moment(last.at)) } }
                    ol.timeline { @for change in changes.iter().rev() { (line(page, change)) } }
                }
            }
        }
    }
}

/// Returns a change in a word.
fn word(change: &Change) -> String {
    match change.what.as_str() {
        "moved" => change.to.clone().unwrap_or_default(),
        what => what.to_owned(),
    }
}

fn line(page: &Page, change: &Change) -> Markup {
    let is_of_claim = matches!(
        change.what.as_str(),
        "claimed" | "checkpointed" | "moved" | "dropped" | "lost"
    );
    html! {
        li class={ (kind_of(change)) @if is_of_claim { " claim" } } {
            (page.moment(change.at)) " "
            @match change.what.as_str() {
                "submitted" => { "submitted" @if let Some(state) = &change.state { ", " (text::state(state)) } },
                "claimed" => {
                    "claimed" @if let (Some(node), true) = (&change.node, page.sees_everything()) { " by " (text::name(node)) }
                    @if change.abandoned == Some(true) { strong { ", after the claim before was lost" } }
                },
                "moved" => {
                    (text::state(change.from.as_deref().unwrap_or_default())) " → " (text::state(change.to.as_deref().unwrap_or_default()))
                    span.dim { " by " (change.message.as_deref().unwrap_or_default()) @if let Some(order) = change.command { ", command " (order) } }
                },
                "checkpointed" => "checkpoint",
                "dropped" => "claim released",
                "lost" => strong { "claim lost with its lease" },
                "commanded" => { "command " @if let Some(order) = change.command { (order) " " } "sent" },
                "rescheduled" => {
                    "rescheduled" @if let Some(to) = &change.to { " to " (text::state(to)) }
                    @if let Some(kind) = &change.kind { ", now of kind " (text::name(kind)) }
                },
                "malformed-command" => { "a command that cannot be read: " bdi { (text::cut(change.text.as_deref().unwrap_or_default(), 200)) } },
                other => (other),
            }
            @if let Some(fence) = change.fence { span.fence { " fence " (fence) } }
            @if let Some(by) = &change.by { span.dim { " by " bdi { (by) } } }
            @if let Some(note) = &change.note { ": " bdi { (text::cut(note, NOTE)) } }
        }
    }
}

/// Returns the class of a change: how its mark looks.
fn kind_of(change: &Change) -> &'static str {
    match (change.what.as_str(), change.to.as_deref()) {
        ("claimed", _) => "claimed",
        ("lost" | "quarantined", _) | ("moved", Some("failed" | "fault")) => "bad",
        ("moved", Some("completed")) => "good",
        ("submitted" | "retried", _) => "begin",
        _ => "plain",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(words: &str) -> Vec<Change> {
        let change = |(n, word): (usize, &str)| {
            let at = jiff::Timestamp::from_second(i64::try_from(n).unwrap()).unwrap();
            let json = serde_json::json!({"at": at, "what": word, "fence": n});
            serde_json::from_value(json).unwrap()
        };
        words.split(' ').enumerate().map(change).collect()
    }

    #[test]
    fn a_run_that_is_repeated_is_one_part() {
        let all = changes("submitted claimed moved claimed moved claimed moved claimed");
        let repeated = Part::Repeated {
            first: 1,
            length: 2,
            times: 3,
        };
        assert_eq!(parts(&all), [Part::One(0), repeated, Part::One(7)]);
    }

    #[test]
    fn two_repetitions_stay_as_they_are() {
        let all = changes("claimed moved claimed moved");
        assert_eq!(parts(&all), [0, 1, 2, 3].map(Part::One));
    }

    #[test]
    fn every_change_is_in_one_part() {
        let all = changes("a a a a b a b a b c c d c c d c c d a");
        let covered: usize = parts(&all)
            .iter()
            .map(|part| match part {
                Part::One(_) => 1,
                Part::Repeated { length, times, .. } => length * times,
            })
            .sum();
        assert_eq!(covered, all.len());
    }
}
