//! What the keys hold: JSON, in the forms that Metafora knows with fields of our own beside them.

use etcd_client::KeyValue;
use jiff::Timestamp;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use windlass_statemachine::{
    Code, Fence, Invalid, Json, Kind, NodeName, Retry, State, Task, TaskId, task::Labels,
};

use super::fences::Fences;
use crate::store::{Change, Error, NodeSpec, NodeStatus, What};

/// Bits of a place within a revision. Orders and places in the history are a revision of etcd with
/// such a place, because one combined write makes many of them at one revision.
const PLACE_BITS: u32 = 12;
/// How many places a revision has.
pub(super) const PLACES: u32 = 1 << PLACE_BITS;

/// The number of what was written at a revision, at this place in it.
pub(super) fn number(revision: i64, place: u32) -> u64 {
    (u64::try_from(revision).unwrap_or(0) << PLACE_BITS) | u64::from(place)
}

/// The revision in such a number.
pub(super) fn revision_of(number: u64) -> i64 {
    i64::try_from(number >> PLACE_BITS).unwrap_or(i64::MAX)
}

/// The place in such a number.
pub(super) fn place_of(number: u64) -> u32 {
    u32::try_from(number % u64::from(PLACES)).unwrap_or(0)
}

pub(super) fn is_zero(n: &u32) -> bool {
    *n == 0
}

fn is_nought(n: &i32) -> bool {
    *n == 0
}

fn is_false(b: &bool) -> bool {
    !*b
}

pub(super) fn text_of(kv: &KeyValue) -> Result<&str, String> {
    std::str::from_utf8(kv.value()).map_err(|e| e.to_string())
}

/// Reads the value of a key.
pub(super) fn parse<T: DeserializeOwned>(kv: &KeyValue) -> Result<T, String> {
    serde_json::from_str(text_of(kv)?).map_err(|e| e.to_string())
}

/// Writes a value; what cannot be written is told with the field's name.
pub(super) fn write<T: Serialize + ?Sized>(
    field: &'static str,
    value: &T,
) -> Result<String, Error> {
    Ok(Json::new(field, value)?.as_str().to_owned())
}

/// A JSON object with the fields of another one behind its own.
pub(super) fn extended(mut text: String, more: &str) -> String {
    let more = more.trim_start_matches('{');
    if text.pop() == Some('}') && more != "}" {
        if !text.ends_with('{') {
            text.push(',');
        }
        text.push_str(more);
    } else {
        text.push('}');
    }
    text
}

/// A task without id and props: `/NS/tasks/ID`, and with them `/NS/finished/ID`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Envelope {
    pub(super) kind: Kind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) start_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "is_nought")]
    pub(super) priority: i32,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub(super) labels: Labels,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) retry: Option<Retry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) submitted_at: Option<Timestamp>,
    /// Its place among what was written at its first revision.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) place: u32,
    /// Its submit order, once the key is not the one that the submit has made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) order: Option<u64>,
    /// Of one that has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) props: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<Code>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ended_at: Option<Timestamp>,
}

impl Envelope {
    pub(super) fn new(task: &Task, submitted_at: Timestamp, place: u32) -> Self {
        Self {
            kind: task.kind.clone(),
            start_at: task.start_at,
            priority: task.priority,
            labels: task.labels.clone(),
            retry: task.retry.clone(),
            submitted_at: Some(submitted_at),
            place,
            order: None,
            props: None,
            state: None,
            ended_at: None,
        }
    }

    /// Reads one. A Metafora client leaves it empty: the task is of the kind `default`.
    pub(super) fn read(kv: &KeyValue) -> Result<Self, String> {
        if kv.value().is_empty() {
            return Self::foreign();
        }
        parse(kv)
    }

    /// What is told of a task whose own cannot be read.
    pub(super) fn foreign() -> Result<Self, String> {
        let kind: Kind = "default".parse().map_err(|e: Invalid| e.to_string())?;
        let nobody: TaskId = "x".parse().map_err(|e: Invalid| e.to_string())?;
        let mut envelope = Self::new(&Task::new(nobody, kind), Timestamp::UNIX_EPOCH, 0);
        envelope.submitted_at = None;
        Ok(envelope)
    }

    pub(super) fn order(&self, kv: &KeyValue) -> u64 {
        self.order
            .unwrap_or_else(|| number(kv.create_revision(), self.place))
    }

    pub(super) fn submitted_at(&self) -> Timestamp {
        self.submitted_at.unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// The state of a task that was never claimed: none is stored for it.
    pub(super) fn first_state(&self) -> State {
        State::submitted(self.start_at, self.submitted_at())
    }

    pub(super) fn task(&self, id: &TaskId, props: Json) -> Task {
        Task {
            id: id.clone(),
            kind: self.kind.clone(),
            props,
            start_at: self.start_at,
            priority: self.priority,
            labels: self.labels.clone(),
            retry: self.retry.clone(),
        }
    }
}

/// What is stored beside a state while a claim has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hold {
    /// The node that has claimed it. Without an owner, the claim was abandoned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) claimed_by: Option<NodeName>,
    /// It was written by the claim itself: its fence is the revision of this key.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) by_claim: bool,
    /// The claim before was lost, and the owner has not written since.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) abandoned: bool,
}

impl Hold {
    pub(super) fn of(node: &NodeName) -> Self {
        let claimed_by = Some(node.clone());
        Self {
            claimed_by,
            ..Self::default()
        }
    }
}

/// `/NS/state/ID`.
pub(super) fn write_state(state: &State, hold: &Hold) -> Result<String, Error> {
    let more = write("claim", hold)?;
    Ok(extended(write("state", state)?, &more))
}

pub(super) fn read_state(kv: &KeyValue, fences: &Fences) -> Result<(State, Hold), String> {
    let mut state: State = parse(kv).or_else(|e| endless_sleep(kv).ok_or(e))?;
    let hold: Hold = parse(kv)?;
    if hold.by_claim {
        state.fence = fences.of(kv.mod_revision());
    }
    Ok((state, hold))
}

/// A sleep without a time, as Metafora stores it for a handler that has named none: it is over.
fn endless_sleep(kv: &KeyValue) -> Option<State> {
    let mut stored: serde_json::Map<String, serde_json::Value> = parse(kv).ok()?;
    let sleeps = stored.get("state")? == "sleeping" && !stored.contains_key("until");
    if !sleeps || stored.contains_key("version") {
        return None;
    }
    stored.insert("until".into(), Timestamp::UNIX_EPOCH.to_string().into());
    serde_json::from_value(stored.into()).ok()
}

/// `/NS/tasks/ID/owner`. Metafora writes the node alone.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Owner {
    pub(super) node: NodeName,
    /// The node's lease; the key may hang on a further one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lease: Option<u64>,
}

/// The lease that an owner's key tells.
pub(super) fn lease_of(kv: &KeyValue) -> u64 {
    let told = parse::<Owner>(kv).ok().and_then(|owner| owner.lease);
    told.unwrap_or_else(|| u64::try_from(kv.lease()).unwrap_or(0))
}

/// Whether a node of Metafora is the owner.
pub(super) fn is_foreign(kv: &KeyValue) -> bool {
    !parse::<Owner>(kv).is_ok_and(|owner| owner.lease.is_some())
}

/// `/NS/parked/ID`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Parked {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<Timestamp>,
    /// Why the task is set aside, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) aside: Option<String>,
}

/// `/NS/history/ID/VERSION`: what happened in one write.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Entry {
    at: Timestamp,
    #[serde(default, skip_serializing_if = "is_zero")]
    place: u32,
    /// The place of what came from another store, which has told one thing at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    what: Vec<What>,
}

impl Entry {
    pub(super) fn write(at: Timestamp, place: u32, what: &[What]) -> Result<String, Error> {
        let (what, seq) = (what.to_vec(), None);
        write(
            "history",
            &Self {
                at,
                place,
                seq,
                what,
            },
        )
    }

    /// A change of another store.
    pub(super) fn of(change: &Change) -> Result<String, Error> {
        let entry = Self {
            at: change.at,
            place: 0,
            seq: Some(change.seq),
            what: vec![change.what.clone()],
        };
        write("history", &entry)
    }

    /// The changes that it tells of.
    pub(super) fn read(id: &TaskId, kv: &KeyValue, fences: &Fences) -> Vec<Change> {
        let Ok(entry) = parse::<Self>(kv) else {
            return Vec::new();
        };
        let revision = kv.mod_revision();
        let changes = entry.what.into_iter().zip(entry.place..);
        changes
            .map(|(mut what, place)| {
                // The claim that wrote it knew its fence only afterwards.
                if let What::Claimed { fence, .. } = &mut what
                    && *fence == Fence(0)
                {
                    *fence = fences.of(revision);
                }
                Change {
                    seq: entry.seq.unwrap_or_else(|| number(revision, place)),
                    at: entry.at,
                    task: id.clone(),
                    what,
                }
            })
            .collect()
    }
}

/// `/NS/nodes/NAME/_metafora`, on the node's lease.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Registration {
    #[serde(flatten)]
    pub(super) spec: NodeSpec,
    #[serde(flatten)]
    pub(super) status: NodeStatus,
    pub(super) joined_at: Timestamp,
    /// The further leases that claims of this node hang on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) leases: Vec<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_extended() {
        for (text, more, expected) in [
            ("{}", "{}", "{}"),
            ("{}", r#"{"a":1}"#, r#"{"a":1}"#),
            (r#"{"a":1}"#, "{}", r#"{"a":1}"#),
            (r#"{"a":1}"#, r#"{"b":2}"#, r#"{"a":1,"b":2}"#),
        ] {
            assert_eq!(extended(text.to_owned(), more), expected);
        }
    }

    #[test]
    fn numbers_hold_their_revision() {
        assert_eq!(revision_of(number(77, 4095)), 77);
        assert_eq!(place_of(number(77, 4095)), 4095);
        assert!(number(77, 4095) < number(78, 0));
    }
}
