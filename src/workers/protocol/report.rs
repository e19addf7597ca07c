//! The forms of reports: what the handlers of a worker did, and what the server answers.

use serde::{Deserialize, Serialize};
use windlass_statemachine::{Fence, Invalid, Json, Progress, StateKind, TaskId};

use super::{Held, Start, or_default};

/// A worker reports what its handlers did.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ReportItems {
    /// The secret of the worker.
    pub secret: String,
    /// The number of the request, greater than that of every earlier exchange and report.
    pub seq: u64,
    /// Every request up to this number was answered, or its answer is not awaited any more.
    #[serde(default, deserialize_with = "or_default")]
    pub settled: u64,
    /// What the handlers did: at most 1,000 items. Those of one claim are in the order of their numbers.
    #[cfg_attr(feature = "schema", schemars(length(max = 1_000)))]
    pub items: Vec<Item>,
    /// Whether the answer may have claims for the slots that become free.
    #[serde(default, deserialize_with = "or_default")]
    pub claims_wanted: bool,
}

/// One report of one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ReportItem"))]
#[non_exhaustive]
pub struct Item {
    /// The task.
    pub id: TaskId,
    /// The fence of the claim.
    pub fence: Fence,
    /// The run.
    pub run: u64,
    /// The number of the report among those of the claim, from 1. The same report is sent again with the same number.
    /// Progress and log lines have no number.
    #[serde(default, deserialize_with = "or_default")]
    pub n: u64,
    /// The order of the last command that the handler has received; 0 for none.
    #[serde(default, deserialize_with = "or_default")]
    pub took: u64,
    /// It has stored new data, and goes on: any JSON.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    pub checkpoint: Option<Json>,
    /// It has returned this message: the JSON form of a handler's message.
    #[serde(default, rename = "return", skip_serializing_if = "Option::is_none")]
    pub returned: Option<Json>,
    /// It has replied to a signal, and goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Reply>,
    /// How far it has got. It is stored with the next write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Lines that it has logged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<Vec<Line>>,
    /// `true`: the worker has aborted it after a stop, at the end of its grace.
    #[serde(
        default,
        skip_serializing_if = "std::ops::Not::not",
        deserialize_with = "or_default"
    )]
    pub aborted: bool,
}

fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(from).map(Some)
}

impl Item {
    /// Returns a report of a run.
    pub fn new(run: &Held, n: u64, what: What) -> Self {
        let mut item = Self {
            id: run.id.clone(),
            fence: run.fence,
            run: run.run,
            n,
            took: run.took,
            checkpoint: None,
            returned: None,
            answer: None,
            progress: None,
            log: None,
            aborted: false,
        };
        match what {
            What::Checkpoint(data) => item.checkpoint = Some(data),
            What::Return(message) => item.returned = Some(message),
            What::Answer(reply) => item.answer = Some(reply),
            What::Progress(progress) => item.progress = Some(progress),
            What::Log(lines) => item.log = Some(lines),
            What::Aborted => item.aborted = true,
        }
        item
    }

    /// Returns what the handler did.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `items`) unless the item says exactly one thing, or for a numbered one without its number.
    pub fn what(&self) -> Result<What, Invalid> {
        let said = [
            self.checkpoint.clone().map(What::Checkpoint),
            self.returned.clone().map(What::Return),
            self.answer.clone().map(What::Answer),
            self.progress.clone().map(What::Progress),
            self.log.clone().map(What::Log),
            self.aborted.then_some(What::Aborted),
        ];
        let mut said = said.into_iter().flatten();
        let (Some(what), None) = (said.next(), said.next()) else {
            let reason = format!(
                "the item of task '{}' must have exactly one of checkpoint, return, answer, progress, log, aborted",
                self.id
            );
            return Err(Invalid::new("items", reason));
        };
        if let What::Progress(progress) = &what
            && progress
                .fraction
                .is_some_and(|fraction| !(0.0..=1.0).contains(&fraction))
        {
            let reason = format!(
                "the progress of task '{}' has a fraction that is not from 0 to 1",
                self.id
            );
            return Err(Invalid::new("items", reason));
        }
        if what.is_numbered() && self.n == 0 {
            let reason = format!(
                "the item of task '{}' has no n; give 1 to the first report of a claim",
                self.id
            );
            return Err(Invalid::new("items", reason));
        }
        Ok(what)
    }
}

/// What a handler did.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum What {
    /// It has stored new data, and goes on.
    Checkpoint(Json),
    /// It has returned this message.
    Return(Json),
    /// It has replied to a signal, and goes on.
    Answer(Reply),
    /// How far it has got.
    Progress(Progress),
    /// Lines that it has logged.
    Log(Vec<Line>),
    /// The worker has aborted it.
    Aborted,
}

impl What {
    /// Returns whether the report has a number.
    pub fn is_numbered(&self) -> bool {
        !matches!(self, Self::Progress(_) | Self::Log(_))
    }
}

/// A reply to a signal.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "SignalReply"))]
#[non_exhaustive]
pub struct Reply {
    /// The order of the signal.
    pub signal: u64,
    /// The reply: any JSON.
    pub reply: Json,
    /// New data, if there is any: any JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Json>,
}

/// A line that a handler has logged.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "WorkerLogLine"))]
#[non_exhaustive]
pub struct Line {
    /// The number of the line among those of the claim, from 1. A line that is sent again is stored once.
    pub n: u64,
    /// The text, without a line break.
    pub text: String,
}

/// The answer to [`ReportItems`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Reported {
    /// The result of each item, in order.
    pub results: Vec<ItemResult>,
    /// Runs to start: the next run of a task whose handler has returned, and new claims.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Start>,
}

/// The result of one item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ItemResult {
    /// The task.
    pub id: TaskId,
    /// The fence of the claim.
    pub fence: Fence,
    /// The number of the report.
    pub n: u64,
    /// Whether it is stored.
    pub result: ResultCode,
    /// Why it was refused, or what to send instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The state of the task after a return that was applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateKind>,
}

impl ItemResult {
    /// Returns the result of an item.
    pub(in crate::workers) fn new(item: &Item, result: ResultCode) -> Self {
        Self {
            id: item.id.clone(),
            fence: item.fence,
            n: item.n,
            result,
            error: None,
            state: None,
        }
    }

    /// Returns the result of an item that is not stored, with the reason.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Fence, Json, workers::protocol::{Held, Item, ItemResult, ResultCode, What}};
    ///
    /// let run = Held::new("a".parse()?, Fence(4), 7);
    /// let item = Item::new(&run, 1, What::Checkpoint(Json::null()));
    /// let result = ItemResult::refused(&item, "checkpoint: is too large");
    /// assert_eq!((result.n, result.result), (1, ResultCode::Refused));
    /// # Ok::<(), windlass::Invalid>(())
    /// ```
    pub fn refused(item: &Item, error: impl Into<String>) -> Self {
        Self {
            error: Some(error.into()),
            ..Self::new(item, ResultCode::Refused)
        }
    }
}

/// The result of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ResultCode {
    /// It is stored; also when it had been stored before.
    Applied,
    /// A checkpoint or a reply is not stored; its number is used for the next report. What a handler has returned is not
    /// stored, and a failed attempt was stored instead.
    Refused,
    /// The run or the claim is over: abort the handler, and report nothing more of it.
    Lost,
    /// Not known. Send the same item again.
    Retry,
}

without_secret!(ReportItems);
