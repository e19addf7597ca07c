//! Reads retry policies as people write them.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::{Map, Value};

use crate::{Retry, plain};

/// Reads a policy as text: a number of attempts or a name, followed by the fields that differ from the policy's
/// defaults, separated by commas (`20,cap=7d`), or the JSON of one.
///
/// # Errors
///
/// A text that says what is wrong, and what would be valid.
///
/// # Example
///
/// ```
/// use windlass_statemachine::{Retry, wire::read_retry};
///
/// assert_eq!(read_retry("never"), Ok(Retry::Never));
/// let patient = read_retry("20,cap=7d").unwrap();
/// assert_eq!(patient, read_retry(r#"{"policy":"exponential","attempts":20,"cap":"7d"}"#).unwrap());
/// assert!(read_retry("often").unwrap_err().starts_with("'often' is not a number of attempts"));
/// ```
pub fn read_retry(text: &str) -> Result<Retry, String> {
    let retry = match (text, text.parse::<u32>()) {
        ("never", _) => Retry::Never,
        ("strikes", _) => Retry::strikes(),
        ("exponential", _) => Retry::default(),
        ("abandoned", _) => Retry::Abandoned,
        // The default policy, with its own waits.
        (_, Ok(attempts)) => plain::object(&format!(
            r#"{{"policy":"exponential","attempts":{attempts}}}"#
        ))?,
        _ if !text.trim_start().starts_with('{') && text.contains(',') => with_fields(text)?,
        _ => plain::object(text).map_err(|e| {
            // For a text that is not a JSON object, the JSON errors do not help.
            let e = match text.trim_start().starts_with('{') {
                true => format!(": {e}"),
                false => String::new(),
            };
            format!(
                "'{text}' is not a number of attempts (1 or more), 'exponential', 'strikes', \
                 'never', 'abandoned', one of these with fields such as 20,cap=7d, or JSON such as \
                 {{\"policy\":\"exponential\",\"attempts\":5,\"cap\":\"10m\"}}{e}"
            )
        })?,
    };
    match retry.check() {
        Ok(()) => Ok(retry),
        Err(e) => Err(e.to_string()),
    }
}

/// Reads a number of attempts or a name with fields: `20,cap=7d`, `strikes,errors=3,window=1h`.
fn with_fields(text: &str) -> Result<Retry, String> {
    let mut parts = text.split(',').map(str::trim);
    let first = parts.next().unwrap_or_default();
    let mut object = Map::new();
    let policy = match first.parse::<u32>() {
        Ok(attempts) => {
            object.insert("attempts".to_owned(), attempts.into());
            "exponential"
        }
        Err(_) => first,
    };
    object.insert("policy".to_owned(), policy.into());
    for part in parts {
        let Some((name, value)) = part.split_once('=') else {
            return Err(format!(
                "'{part}' of '{text}' is not a field with a value; write it like 20,cap=7d or strikes,errors=3,window=1h"
            ));
        };
        let number = value.parse::<serde_json::Number>().ok();
        let value = number.map_or_else(|| value.into(), Value::Number);
        if object.insert(name.to_owned(), value).is_some() {
            return Err(format!("'{name}' is given twice in '{text}'; give it once"));
        }
    }
    let object = Value::Object(object).to_string();
    plain::object(&object).map_err(|e| format!("'{text}': {e}"))
}

/// Reads the field of a form: an object, a name or a number of attempts; `null` counts as absent.
pub(super) fn field<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Retry>, D::Error> {
    from.deserialize_any(Policy)
}

struct Policy;

impl<'de> Visitor<'de> for Policy {
    type Value = Option<Retry>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a number of attempts, the name of a policy or an object")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        read_retry(text).map(Some).map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, attempts: u64) -> Result<Self::Value, E> {
        self.visit_str(&attempts.to_string())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Retry::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn policies_as_they_are_typed() {
        assert_eq!(read_retry("never"), Ok(Retry::Never));
        assert_eq!(read_retry("abandoned"), Ok(Retry::Abandoned));
        assert_eq!(read_retry("strikes"), Ok(Retry::strikes()));
        assert_eq!(read_retry("exponential"), Ok(Retry::default()));
        // The same waits as those of the default.
        let longest = Duration::from_secs(300);
        assert_eq!(read_retry("3"), Ok(Retry::exponential(3, longest)));
        assert_eq!(read_retry("8"), Ok(Retry::default()));
        assert_eq!(read_retry(r#"{"policy":"strikes"}"#), Ok(Retry::strikes()));
        let week = Duration::from_secs(7 * 24 * 60 * 60);
        assert_eq!(read_retry("20,cap=7d"), Ok(Retry::exponential(20, week)));
        assert_eq!(
            read_retry("strikes, errors=3, window=1h"),
            read_retry(r#"{"policy":"strikes","errors":3,"window":"1h"}"#)
        );
        assert_eq!(
            read_retry("exponential,attempts=4,factor=1.5,base=2s"),
            read_retry(r#"{"policy":"exponential","attempts":4,"factor":1.5,"base":"2s"}"#)
        );
        for (text, says) in [
            ("20,cap=8d", "retry.cap: "),
            ("20,cap=soon", "'soon' is not a length of time"),
            (
                "20,7d",
                "'7d' of '20,7d' is not a field with a value; write it like 20,cap=7d",
            ),
            (
                "20,attempts=3",
                "'attempts' is given twice in '20,attempts=3'",
            ),
            ("20,hat=7d", "'hat' is not a field"),
            (
                "never,cap=1d",
                "'never,cap=1d': 'cap' is not a field of this policy",
            ),
            (
                "abandoned,attempts=3",
                "'attempts' is not a field of this policy",
            ),
            (
                r#"{"policy":"never","cap":"1d"}"#,
                "'cap' is not a field of this policy",
            ),
            ("often,cap=7d", "'often' is not one of strikes, exponential"),
            ("0", "retry.attempts: 0"),
            ("often", "'often' is not a number of attempts"),
            (
                r#"{"policy":"x"}"#,
                "'x' is not one of strikes, exponential, never, abandoned",
            ),
            ("-1", "'-1' is not a number of attempts (1 or more)"),
            ("[]", "'[]' is not a number of attempts"),
        ] {
            assert!(read_retry(text).unwrap_err().contains(says), "{text}");
        }
    }
}
