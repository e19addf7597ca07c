//! The reasons in words.

use std::fmt;

use windlass_statemachine::{Bound, text::escaped};

use super::WaitReason;
use crate::store::LimitedBy;

/// How many nodes or tasks the text of a reason names.
const NAMED: usize = 5;

/// Returns the first of these things as text.
fn first<T: ToString>(all: &[T]) -> String {
    let named: Vec<String> = all.iter().take(NAMED).map(T::to_string).collect();
    let more = if all.len() > NAMED { ", …" } else { "" };
    format!("{}{more}", named.join(", "))
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNode => f.write_str("no live node handles its kind: start one that does"),
            Self::DataVersion { version, nodes } => {
                let nodes = first(nodes);
                write!(
                    f,
                    "no live node reads data v{version} of its kind: start one that does ({nodes} \
                     read older data)"
                )
            }
            Self::Labels(selectors) => {
                let selectors = first(selectors);
                write!(
                    f,
                    "no live node of its kind takes tasks with its labels: start one that does ({selectors})"
                )
            }
            Self::NotClaiming(nodes) => {
                let nodes = first(nodes);
                write!(f, "the nodes of its kind are frozen or draining: {nodes}")
            }
            Self::Fault { nodes, reason } => {
                let nodes = first(nodes);
                write!(
                    f,
                    "a fault of their machines stops the nodes of its kind ({nodes}): {reason}; they try again"
                )
            }
            Self::Full(nodes) => {
                let nodes = first(nodes);
                write!(f, "the nodes of its kind have no free slot: {nodes}")
            }
            Self::Tasks(tasks) if tasks.is_empty() => f.write_str("it waits for other tasks"),
            Self::Tasks(tasks) => {
                let count = match tasks.len() {
                    1 => "1 task".to_owned(),
                    more => format!("{more} tasks"),
                };
                write!(f, "it waits for {count}: {}", first(tasks))
            }
            Self::Signal(None) => f.write_str("it waits for a signal"),
            Self::Signal(Some(signal)) => {
                write!(f, "it waits for the signal '{}'", escaped(signal.name()))?;
                match signal.text() {
                    "" => Ok(()),
                    text => write!(f, ": {}", escaped(text)),
                }
            }
            Self::Limit(limited) => limit_text(limited, f),
            Self::Lost(node) => {
                write!(
                    f,
                    "its node {node} is lost or cannot write to the store: a live node of its kind takes it when the lease has ended and the \
                     store takes writes; start one if none lives"
                )
            }
            Self::Copied(mark) => write!(f, "this store was {mark}, and its tasks run there"),
        }
    }
}

fn limit_text(by: &LimitedBy, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let LimitedBy { limit, until, full } = by;
    let key = limit.key();
    write!(f, "it waits for the limit '{key}' ")?;
    match limit.bound() {
        Bound::AtOnce(most) => write!(f, "({most} at once)")?,
        Bound::Starts { most, within } => write!(f, "({most} starts in {within:?})")?,
    }
    if let Some(until) = until {
        write!(f, ", next at {until}")?;
    }
    if full.is_empty() {
        return Ok(());
    }
    let nodes = first(full);
    write!(
        f,
        ", and the nodes of its kind have no free slot: {nodes}; more slots alone would not help"
    )
}
