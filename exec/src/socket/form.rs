//! The JSON forms of requests and answers.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::value::RawValue;
use windlass::{
    AwaitedSignal, CommandId, Invalid, Json, Wake,
    statemachine::{
        plain,
        wire::{read_message, read_wake},
    },
};

/// The name of the request for a signal.
const WAIT_SIGNAL: &str = "wait_signal";

/// What a process asks its worker for.
#[derive(Debug)]
pub(crate) enum Request {
    /// The payload of a signal.
    WaitSignal(WaitSignal),
}

/// A request for a signal.
#[derive(Debug)]
pub(crate) struct WaitSignal {
    pub(crate) signal: AwaitedSignal,
    /// When the wait ends: a duration counts from when the run of the command takes the request.
    pub(crate) until: Option<Wake>,
    /// The reply to the sender, when the command has ended with success.
    pub(crate) reply: Json,
}

/// What a worker answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The payload of the signal.
    Payload(Json),
    /// The wait has ended without the signal.
    Expired,
    /// The request was refused. The field of the request, if one is wrong, and the reason.
    Refused(Option<String>, String),
}

type Fields = BTreeMap<String, Box<RawValue>>;

fn fields(field: &'static str, text: &str) -> Result<Fields, Invalid> {
    let plain::Fields(fields) =
        plain::object(text).map_err(|wrong| Invalid::new(field, wrong.to_string()))?;
    Ok(fields)
}

/// Reads the key of a request, and returns the rest of it.
pub(super) fn read_key(line: &str) -> Result<(String, Fields), Invalid> {
    let mut fields = fields("request", line)?;
    let key = fields.remove("key");
    let key = key.ok_or_else(|| Invalid::new("key", "is missing"))?;
    let key = plain::read(key.get()).map_err(|wrong| Invalid::new("key", wrong))?;
    Ok((key, fields))
}

/// Reads what a request asks for.
pub(super) fn read_request(fields: Fields) -> Result<Request, Invalid> {
    let mut fields = fields.into_iter();
    match (fields.next(), fields.next()) {
        (Some((name, value)), None) if name == WAIT_SIGNAL => {
            read_wait(value.get()).map(Request::WaitSignal)
        }
        (Some((name, _)), None) => Err(Invalid::new(
            name,
            format!("is not a request that this worker knows; it knows {WAIT_SIGNAL}"),
        )),
        _ => Err(Invalid::new(
            "request",
            format!("does not ask for one thing; give one field beside the key: {WAIT_SIGNAL}"),
        )),
    }
}

fn read_wait(text: &str) -> Result<WaitSignal, Invalid> {
    let mut fields = fields(WAIT_SIGNAL, text)?;
    let given = |value: Option<Box<RawValue>>| value.filter(|value| value.get() != "null");
    let reply = fields.remove("reply");
    let reply = reply.map_or_else(|| Ok(Json::null()), |raw| Json::parse("reply", raw.get()))?;
    reply.check_depth("reply")?;
    let until = given(fields.remove("until"));
    let until = until
        .map(|raw| {
            let text: String =
                plain::read(raw.get()).map_err(|wrong| Invalid::new("until", wrong))?;
            read_wake("until", &text)
        })
        .transpose()?;
    Ok(WaitSignal {
        signal: read_signal(&fields)?,
        until,
        reply,
    })
}

/// Reads the declaration of a signal as the library does it in a message.
fn read_signal(fields: &Fields) -> Result<AwaitedSignal, Invalid> {
    let declared = Json::new(WAIT_SIGNAL, fields)?;
    let message = format!(
        r#"{{"message":"pause","awaits_signal":{}}}"#,
        declared.as_str()
    );
    let read = read_message(&message, Timestamp::UNIX_EPOCH, || CommandId::new("none")).map_err(
        |error| match error.field().strip_prefix("awaits_signal.") {
            Some(field) => Invalid::new(field.to_owned(), error.reason()),
            None => Invalid::new(WAIT_SIGNAL, error.reason()),
        },
    )?;
    let signal = read.awaited_signal().cloned();
    signal.ok_or_else(|| Invalid::new(WAIT_SIGNAL, "names no signal"))
}

/// Ends a line. JSON has line breaks between values only: a text has `\n`.
pub(super) fn line(json: &str) -> String {
    let mut line = json.replace(['\n', '\r'], " ");
    line.push('\n');
    line
}

impl From<Invalid> for Answer {
    fn from(error: Invalid) -> Self {
        Self::Refused(Some(error.field().to_owned()), error.reason().to_owned())
    }
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        match self {
            Self::Payload(payload) => map.serialize_entry("payload", payload)?,
            Self::Expired => map.serialize_entry("expired", &true)?,
            Self::Refused(field, reason) => {
                map.serialize_entry("error", reason)?;
                if let Some(field) = field {
                    map.serialize_entry("field", field)?;
                }
            }
        }
        map.end()
    }
}

impl Answer {
    /// Reads an answer. `None` for a line that is none.
    pub(super) fn read(line: &str) -> Option<Self> {
        let mut fields: BTreeMap<String, Json> = serde_json::from_str(line).ok()?;
        if let Some(reason) = fields.remove("error") {
            let field = fields.remove("field").and_then(|f| f.get("field").ok());
            return Some(Self::Refused(field, reason.get("error").ok()?));
        }
        if fields.contains_key("expired") {
            return Some(Self::Expired);
        }
        fields.remove("payload").map(Self::Payload)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read(line: &str) -> Result<WaitSignal, Invalid> {
        let (key, fields) = read_key(line)?;
        assert_eq!(key, "k");
        let Request::WaitSignal(wait) = read_request(fields)?;
        Ok(wait)
    }

    #[test]
    fn a_request_is_read() {
        let wait = read(
            r#"{"key":"k","wait_signal":{"name":"a","text":"b","schema":{},"until":"in 1m","reply":[1]}}"#,
        )
        .unwrap();
        assert_eq!((wait.signal.name(), wait.signal.text()), ("a", "b"));
        assert_eq!(wait.signal.schema().unwrap().as_str(), "{}");
        assert_eq!(wait.until, Some(Wake::After(Duration::from_secs(60))));
        assert_eq!(wait.reply.as_str(), "[1]");
        let wait = read(r#"{"key":"k","wait_signal":{"name":"a","until":null}}"#).unwrap();
        assert!(wait.until.is_none() && wait.reply.is_null());
    }

    #[test]
    fn a_wrong_request_names_its_field() {
        for (line, field) in [
            ("approve", "request"),
            (r#"{"wait_signal":{"name":"a"}}"#, "key"),
            (r#"{"key":7}"#, "key"),
            (r#"{"key":"k"}"#, "request"),
            (
                r#"{"key":"k","wait_signal":{"name":"a"},"data":1}"#,
                "request",
            ),
            (r#"{"key":"k","data":1}"#, "data"),
            (r#"{"key":"k","wait_signal":"a"}"#, "wait_signal"),
            (r#"{"key":"k","wait_signal":{}}"#, "name"),
            (r#"{"key":"k","wait_signal":{"name":""}}"#, "name"),
            (r#"{"key":"k","wait_signal":{"name":"a","text":5}}"#, "text"),
            (
                r#"{"key":"k","wait_signal":{"name":"a","schema":[]}}"#,
                "schema",
            ),
            (
                r#"{"key":"k","wait_signal":{"name":"a","until":"soon"}}"#,
                "until",
            ),
            (
                r#"{"key":"k","wait_signal":{"name":"a","until":5}}"#,
                "until",
            ),
            (r#"{"key":"k","wait_signal":{"name":"a","by":"me"}}"#, "by"),
        ] {
            assert_eq!(read(line).unwrap_err().field(), field, "{line}");
        }
    }

    /// Payloads are stored as they were written, and may have lines.
    #[test]
    fn a_payload_with_lines_is_one_line() {
        let payload = Json::parse("payload", "{\r\n  \"a\": \"b\\n\"\n}").unwrap();
        let sent = line(&serde_json::to_string(&Answer::Payload(payload)).unwrap());
        assert_eq!(sent, "{\"payload\":{    \"a\": \"b\\n\" }}\n");
    }

    #[test]
    fn an_answer_is_read_as_it_is_written() {
        let payload = Json::parse("payload", r#"{"n":9007199254740993}"#).unwrap();
        for answer in [
            Answer::Payload(payload),
            Answer::Payload(Json::null()),
            Answer::Expired,
            Answer::Refused(None, "why".into()),
            Answer::Refused(Some("name".into()), "is wrong".into()),
        ] {
            let line = serde_json::to_string(&answer).unwrap();
            assert_eq!(Answer::read(&line), Some(answer), "{line}");
        }
        assert_eq!(Answer::read("{}"), None);
        assert_eq!(Answer::read("text"), None);
    }
}
