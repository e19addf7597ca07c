//! [`Params`]: the parameters of a request's query.

use std::{str::FromStr, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::{FromRequest, FromRequestParts, Query, Request},
    http::{HeaderValue, StatusCode, header::CONTENT_TYPE, request::Parts},
};
use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use windlass::{
    Json, Kind,
    statemachine::{
        plain,
        wire::{read_duration, read_past, read_since},
    },
    store::{Filter, StateWord, TimeRange},
};

use crate::{app::App, local::Local, problem::Problem};

const JSON: &str = "application/json";

/// The parameters that were not read yet. [`end`](Self::end) refuses what is left.
#[derive(Debug)]
pub(crate) struct Params {
    left: Vec<(String, String)>,
    /// The names of the parameters that were read, given or not.
    known: Vec<String>,
    /// The zone of days and local times.
    local: Local,
}

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = Query::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        let pairs = read.map_err(|error| Problem::invalid("query", error.body_text()))?;
        Ok(Self {
            left: pairs.0,
            known: Vec::new(),
            local: Local::of(parts),
        })
    }
}

impl Params {
    /// Takes every value of a parameter.
    pub(crate) fn all(&mut self, name: &str) -> Vec<String> {
        self.known.push(name.to_owned());
        let taken = self.left.extract_if(.., |(known, _)| known == name);
        taken.map(|(_, value)| value).collect()
    }

    /// Takes a parameter.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, Problem> {
        let mut all = self.all(name);
        match all.len() {
            0 | 1 => Ok(all.pop()),
            _ => Err(Problem::invalid(
                name,
                "is given more than once; give it once",
            )),
        }
    }

    /// Takes a parameter of a type.
    pub(crate) fn get<T: FromStr<Err: std::fmt::Display>>(
        &mut self,
        name: &str,
    ) -> Result<Option<T>, Problem> {
        let text = self.text(name)?;
        let read = text.map(|text| {
            let wrong = |error: T::Err| {
                let error = error.to_string();
                let reason = error.strip_prefix(&format!("{name}: ")).unwrap_or(&error);
                match reason.contains(&*text) {
                    true => Problem::invalid(name, reason),
                    false => Problem::invalid(name, format!("'{text}': {reason}")),
                }
            };
            text.parse().map_err(wrong)
        });
        read.transpose()
    }

    /// Takes a parameter that is `true` or `false`; `false` by default. A parameter without a value is `true`.
    pub(crate) fn flag(&mut self, name: &str) -> Result<bool, Problem> {
        match self.text(name)?.as_deref() {
            None | Some("false") => Ok(false),
            Some("" | "true") => Ok(true),
            Some(other) => {
                let what = format!("'{other}' is not true or false");
                Err(Problem::invalid(name, what))
            }
        }
    }

    /// Takes a length of time, such as `30s` or `1h 30m`.
    pub(crate) fn time(&mut self, name: &str) -> Result<Option<Duration>, Problem> {
        let text = self.text(name)?;
        text.map(|text| read_time(name, &text)).transpose()
    }

    /// Takes a time of a filter, as the command line reads it: RFC 3339, `yesterday`, `5m ago` or `5m`. Days are those of the
    /// time zone that a page has chosen, or of this machine.
    pub(crate) fn past(
        &mut self,
        name: &'static str,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, Problem> {
        let text = self.text(name)?;
        let read = text.map(|text| read_past(name, &text, &self.local.at(now)));
        Ok(read.transpose()?)
    }

    /// Takes the time from which on a filter selects, like [`past`](Self::past), and none in the future.
    pub(crate) fn since(
        &mut self,
        name: &'static str,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, Problem> {
        let text = self.text(name)?;
        let read = text.map(|text| read_since(name, &text, &self.local.at(now)));
        Ok(read.transpose()?)
    }

    /// Takes a number within bounds.
    pub(crate) fn number(
        &mut self,
        name: &str,
        (least, most): (u32, u32),
    ) -> Result<Option<u32>, Problem> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        match text.parse() {
            Ok(number) if (least..=most).contains(&number) => Ok(Some(number)),
            _ => {
                let what = format!("'{text}' is not a whole number from {least} to {most}");
                Err(Problem::invalid(name, what))
            }
        }
    }

    /// Takes the parameters of a filter, which are those of `windlass list`.
    pub(crate) fn filter(&mut self, now: Timestamp) -> Result<Filter, Problem> {
        let mut filter = Filter::default();
        let mut states = Vec::new();
        for words in self.all("state") {
            for word in words.split(',') {
                let wrong = |error: windlass::Invalid| Problem::invalid("state", error.reason());
                states.push(word.parse::<StateWord>().map_err(wrong)?);
            }
        }
        filter = filter.state_words(states);
        if let Some(kind) = self.text("kind")? {
            match kind.strip_suffix('*') {
                Some(stem) => filter.kind_prefix = Some(stem.to_owned()),
                None => filter.kind = Some(Kind::new(kind)?),
            }
        }
        for label in self.all("label") {
            let (name, value) = match label.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (&*label, None),
            };
            if name.is_empty() {
                let what = format!("'{label}' has no name; write it like team or team=billing");
                return Err(Problem::invalid("label", what));
            }
            filter.labels.push((name.to_owned(), value));
        }
        for id in self.all("id") {
            filter.ids.push(id.parse()?);
        }
        for props in self.all("props_at") {
            filter.props.push(read_props_at(&props)?);
        }
        filter.id_prefix = self.text("prefix")?;
        filter.node = self.get("node")?;
        filter.claimed = self.flag("claimed")?;
        filter.quarantined = self.flag("quarantined")?;
        filter.error = self.text("error")?;
        filter.fingerprint = self.text("fingerprint")?;
        filter.limit_key = self.text("limit_key")?;
        let from = self.since("submitted_from", now)?;
        filter.submitted = TimeRange::new(from, self.past("submitted_until", now)?);
        let from = self.since("ended_from", now)?;
        filter.ended = TimeRange::new(from, self.past("ended_until", now)?);
        Ok(filter)
    }

    /// Refuses the parameters that nothing has read, and names those of the request.
    pub(crate) fn end(self) -> Result<(), Problem> {
        let Some((name, _)) = self.left.first() else {
            return Ok(());
        };
        let known = match self.known.as_slice() {
            [] => "; it has none".to_owned(),
            [one] => format!("; it has {one}"),
            all => format!("; it has {}", all.join(", ")),
        };
        match name.is_empty() {
            true => {
                let what =
                    format!("has a parameter without a name, which this request has not{known}");
                Err(Problem::invalid("query", what))
            }
            false => {
                let what = format!("is not a parameter of this request{known}");
                Err(Problem::invalid(name, what))
            }
        }
    }
}

/// Returns a text as a part of a path or a query.
pub(crate) fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            true => encoded.push(char::from(byte)),
            false => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// Reads a body that is a JSON object.
pub(crate) fn read_form<T: DeserializeOwned>(body: &[u8], like: &str) -> Result<T, Problem> {
    let text = std::str::from_utf8(body).map_err(|_| Problem::invalid("body", "is not UTF-8"))?;
    let read = plain::object(text);
    read.map_err(|wrong| Problem::invalid("body", format!("{wrong}; write it like {like}")))
}

/// The body of a request without parameters, as a form.
pub(crate) struct Form<T>(pub(crate) T);

/// A body that has a form.
pub(crate) trait Formed: DeserializeOwned {
    /// A body that is right, for errors.
    const LIKE: &str;
    /// Whether the body has a field `secret`, whose value no error quotes.
    const HAS_SECRET: bool = false;
}

impl<T: Formed> FromRequest<Arc<App>> for Form<T> {
    type Rejection = Problem;

    async fn from_request(request: Request<Body>, app: &Arc<App>) -> Result<Self, Problem> {
        let (mut head, body) = request.into_parts();
        Params::from_request_parts(&mut head, app).await?.end()?;
        let body = whole(Request::from_parts(head, body), app).await?;
        let body = match body.trim_ascii() {
            b"" => b"{}",
            _ => body.as_ref(),
        };
        let read = read_form(body, T::LIKE).map(Self);
        read.map_err(
            |problem| match T::HAS_SECRET && problem.is_about("secret: is ") {
                true => Problem::invalid(
                    "secret",
                    "is not text; give the one that the worker has made",
                ),
                false => problem,
            },
        )
    }
}

/// Returns whether a type of a body is that of JSON, or of a format that is written in JSON.
fn is_json(kind: &HeaderValue) -> bool {
    let kind = kind.to_str().unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default();
    let kind = kind.trim().to_ascii_lowercase();
    kind == JSON || (kind.starts_with("application/") && kind.ends_with("+json"))
}

/// Refuses a body of another type than JSON: browsers send some of them to any server without asking it first. A body without
/// a type is read as JSON.
fn check_type(request: &Request<Body>) -> Result<(), Problem> {
    let kinds = request.headers().get_all(CONTENT_TYPE);
    let other = kinds.iter().find(|kind| !is_json(kind));
    match other.filter(|_| !request.body().is_end_stream()) {
        None => Ok(()),
        Some(kind) => {
            let kind = kind.to_str().unwrap_or_default();
            let detail = format!(
                "the type of the body is '{kind}'; send JSON, with the header 'Content-Type: {JSON}' (curl: --json in place of -d)"
            );
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            Err(Problem::new(status, "media_type", detail))
        }
    }
}

/// Reads a whole body of JSON.
pub(crate) async fn whole(request: Request<Body>, app: &Arc<App>) -> Result<Bytes, Problem> {
    check_type(&request)?;
    let read = Bytes::from_request(request, app).await;
    read.map_err(|error| {
        let status = error.status();
        let most = app.settings.body_bytes;
        let detail = match status {
            StatusCode::PAYLOAD_TOO_LARGE => {
                format!("the body has more than {most} bytes; send several requests, or lines (application/x-ndjson)")
            }
            _ => error.body_text(),
        };
        Problem::new(status, "body", detail)
    })
}

/// Refuses a length of time beyond the longest one.
pub(crate) fn within(name: &str, time: Duration, most: Duration) -> Result<Duration, Problem> {
    if time <= most {
        return Ok(time);
    }
    let most = SignedDuration::try_from(most).unwrap_or(SignedDuration::MAX);
    let what = format!("is longer than {most:#}, the most; give at most that, and ask again");
    Err(Problem::invalid(name, what))
}

/// Reads a length of time.
pub(crate) fn read_time(field: &str, text: &str) -> Result<Duration, Problem> {
    read_duration(text).map_err(|what| Problem::invalid(field, what))
}

/// Reads a JSON pointer and the value at it: `/to/country="de"`. A value that is not JSON is text.
fn read_props_at(text: &str) -> Result<(String, Json), Problem> {
    let Some((pointer, value)) = text.split_once('=') else {
        let what = format!("'{text}' has no value; write it like /to/country=\"de\"");
        return Err(Problem::invalid("props_at", what));
    };
    if !(pointer.is_empty() || pointer.starts_with('/')) {
        let what = format!("'{pointer}' is not a JSON pointer; it begins with '/'");
        return Err(Problem::invalid("props_at", what));
    }
    let value =
        Json::parse("value", value).unwrap_or_else(|_| Json::from(serde_json::Value::from(value)));
    Ok((pointer.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::{Local, Params, encoded};

    /// Regression: the refusal named no field.
    #[test]
    fn a_parameter_without_a_name_is_an_error_of_the_query() {
        let params = Params {
            left: vec![(String::new(), "mail".to_owned())],
            known: vec!["kind".to_owned()],
            local: Local::default(),
        };
        let refused = params.end().unwrap_err();
        assert!(
            refused
                .detail()
                .starts_with("query: has a parameter without a name")
        );
    }

    #[test]
    fn a_kind_is_one_part_of_a_query() {
        assert_eq!(encoded("inbox/a b&c"), "inbox%2Fa%20b%26c");
        assert_eq!(encoded("mail-1.x"), "mail-1.x");
    }
}
