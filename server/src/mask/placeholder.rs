//! The value that stands in place of a masked one, and is never written back.

use serde_json::Value;
use windlass::{Command, Invalid, Json, store::Operation};

/// The value that is shown in place of a masked one.
pub(crate) const PLACEHOLDER: &str = r#"{"$windlass":"masked"}"#;
/// The text that is shown in place of a masked one.
pub(crate) const HIDDEN: &str = "[masked]";
/// The name of its only member.
const NAME: &str = "$windlass";

/// Returns the value that is shown in place of a masked one.
pub(crate) fn placeholder() -> Json {
    Json::from(serde_json::json!({ NAME: "masked" }))
}

/// Refuses an operation that would write the placeholder of a masked value.
pub(crate) fn refuse_placeholders(operation: &Operation) -> Result<(), Invalid> {
    let check = |field: &'static str, json: Option<&Json>| {
        json.map_or(Ok(()), |json| refuse_placeholder(field, json))
    };
    match operation {
        Operation::Submit(submit) => check("props", Some(&submit.task.props)),
        Operation::Retry(retry) => {
            check("props", retry.props.as_ref())?;
            check("data", retry.data.as_ref())
        }
        Operation::Reschedule(change) => {
            check("props", change.props.as_ref())?;
            check("data", change.data.as_ref())
        }
        Operation::Send(send) => match &send.command {
            Command::Complete { result } => check("result", result.as_ref()),
            Command::Signal(signal) => check("payload", signal.payload_json()),
            _ => Ok(()),
        },
        Operation::Delete(_) => Ok(()),
    }
}

/// Refuses a document that has the placeholder of a masked value.
pub(crate) fn refuse_placeholder(field: &'static str, json: &Json) -> Result<(), Invalid> {
    refuse(field, json, &format!(", or leave {field} out to keep it"))
}

/// Refuses a value of a worker's report that has the placeholder of a masked value.
pub(crate) fn refuse_reported(field: &'static str, json: &Json) -> Result<(), Invalid> {
    refuse(field, json, "")
}

fn refuse(field: &'static str, json: &Json, or: &str) -> Result<(), Invalid> {
    let Some(place) = place(json) else {
        return Ok(());
    };
    let at = match place.as_str() {
        "" => "the whole value",
        place => place,
    };
    let what = format!(
        "{at} is {PLACEHOLDER}, which the server shows in place of a masked value; give the value itself{or}"
    );
    Err(Invalid::new(field, what))
}

/// Returns the pointer to the first placeholder in a document.
fn place(json: &Json) -> Option<String> {
    let text = json.as_str();
    // The name can be written with escapes.
    if !text.contains(NAME) && !text.contains('\\') {
        return None;
    }
    let value: Value = serde_json::from_str(text).ok()?;
    let mut at = String::new();
    find(&value, &mut at).then_some(at)
}

fn find(value: &Value, at: &mut String) -> bool {
    let length = at.len();
    let mut below = |name: &str, value: &Value| {
        at.push('/');
        at.push_str(&name.replace('~', "~0").replace('/', "~1"));
        let found = find(value, at);
        if !found {
            at.truncate(length);
        }
        found
    };
    match value {
        Value::Object(fields) => {
            fields.contains_key(NAME) || fields.iter().any(|(name, value)| below(name, value))
        }
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.any(|(place, value)| below(&place.to_string(), value))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Option<String> {
        place(&Json::parse("json", text).unwrap_or_else(|e| panic!("{e}")))
    }

    #[test]
    fn a_placeholder_is_found_at_its_place() {
        assert_eq!(placeholder().as_str(), PLACEHOLDER);
        assert_eq!(at(PLACEHOLDER).as_deref(), Some(""));
        let deep = format!(r#"{{"a":[1,{{"x/y":{PLACEHOLDER}}}],"b":{PLACEHOLDER}}}"#);
        assert_eq!(at(&deep).as_deref(), Some("/a/1/x~1y"));
        assert_eq!(
            at(r#"[{"\u0024windlass":"masked"}]"#).as_deref(),
            Some("/0")
        );
        for data in [
            r#"{"masked":true}"#,
            r#""$windlass""#,
            "[]",
            r#"{"windlass":1}"#,
        ] {
            assert_eq!(at(data), None, "{data}");
        }
    }
}
