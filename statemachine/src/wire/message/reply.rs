//! Replies to signals in a message.

use serde::Serialize;

use super::Fields;
use crate::{Invalid, Json};

/// A reply to a signal.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Reply"))]
pub(crate) struct ReplyForm {
    /// The order of the signal in the queue of the task.
    pub(super) signal: u64,
    /// Its value: any JSON.
    pub(super) reply: Json,
}

pub(super) fn read_reply(text: &str) -> Result<(u64, Json), Invalid> {
    let example = r#"write it like {"signal":7,"reply":"thanks"}"#;
    let mut fields = Fields::parse(text, "reply", example)?;
    let signal = fields.need("signal")?;
    let reply = fields.take_json("reply")?;
    let reply = reply.ok_or_else(|| Invalid::new("reply", format!("is missing; {example}")))?;
    fields.end(["signal", "reply"])?;
    Ok((signal, reply))
}
