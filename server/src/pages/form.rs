//! [`Fields`]: the pairs of a form or of a query.

use std::sync::{Arc, OnceLock};

use axum::{
    body::{Body, HttpBody},
    extract::{Form, FromRequest, Query, Request},
    http::{Uri, header::CONTENT_TYPE},
};

use super::api::Failure;
use crate::{app::App, problem::Problem};

/// The pairs of a form or of a query, in their order.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields(pub(super) Vec<(String, String)>);

/// The fields of the form of a request, for the page of a refusal: a browser may have forgotten them.
#[derive(Clone, Default)]
pub(super) struct Sent(Arc<OnceLock<Fields>>);

/// The fields that no person has typed.
const HIDDEN: [&str; 6] = ["action", "asked", "back", "key", "tasks", "zone"];

impl Sent {
    /// Returns the fields that a person has typed.
    pub(super) fn typed(&self) -> impl Iterator<Item = (&str, &str)> {
        let fields = self.0.get().into_iter().flat_map(|fields| &fields.0);
        let fields = fields.map(|(name, value)| (name.as_str(), value.as_str()));
        fields.filter(|(name, value)| !value.trim().is_empty() && !HIDDEN.contains(name))
    }
}

impl FromRequest<Arc<App>> for Fields {
    type Rejection = Failure;

    async fn from_request(request: Request<Body>, app: &Arc<App>) -> Result<Self, Failure> {
        let sent = request.extensions().get::<Sent>().cloned();
        // A form without fields: browsers send the type, other clients may leave it out.
        if request.body().is_end_stream() && !request.headers().contains_key(CONTENT_TYPE) {
            return Ok(Self::default());
        }
        match Form::from_request(request, app).await {
            Ok(Form(pairs)) => {
                let fields = Self(pairs);
                if let Some(sent) = sent {
                    let _ = sent.0.set(fields.clone());
                }
                Ok(fields)
            }
            Err(error) => {
                let what = error.body_text();
                Err(Problem::new(error.status(), "body", what).into())
            }
        }
    }
}

impl Fields {
    /// Returns the pairs.
    pub(super) fn of(pairs: &[(&str, &str)]) -> Self {
        let pairs = pairs.iter();
        Self(
            pairs
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        )
    }

    /// Reads the query of a URL.
    pub(super) fn of_query(uri: &Uri) -> Result<Self, Failure> {
        let read = Query::try_from_uri(uri);
        match read {
            Ok(Query(pairs)) => Ok(Self(pairs)),
            Err(error) => Err(Problem::invalid("query", error.body_text()).into()),
        }
    }

    /// Returns a field; `None` for one that is empty or missing.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        let value = found.map(|(_, value)| value.trim());
        value.filter(|value| !value.is_empty())
    }

    /// Returns a text for others; `None` for one that is empty or missing. One of spaces alone is returned as it is, so that
    /// it is refused instead of left out.
    pub(super) fn note(&self) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == "note");
        let raw = found.map(|(_, value)| value.as_str());
        self.get("note").or(raw.filter(|raw| !raw.is_empty()))
    }

    /// Returns the fields as a query, with `?`; nothing without fields.
    pub(super) fn query(&self) -> String {
        let pairs = self.0.iter();
        let pairs = pairs.map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
        let pairs: Vec<String> = pairs.collect();
        match pairs.is_empty() {
            true => String::new(),
            false => format!("?{}", pairs.join("&")),
        }
    }

    /// Returns the fields with another value of one.
    pub(super) fn with(&self, name: &str, value: &str) -> Self {
        let mut other = self.clone();
        other.0.retain(|(known, _)| known != name);
        other.0.push((name.to_owned(), value.to_owned()));
        other
    }

    /// Returns the fields without one.
    pub(super) fn without(&self, name: &str) -> Self {
        let mut other = self.clone();
        other.0.retain(|(known, _)| known != name);
        other
    }
}

pub(super) use crate::params::encoded;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_changed_and_written_again() {
        let uri = Uri::from_static("/tasks?kind=a%2Fb&label=x%3D1&label=y&empty=");
        let read = Fields::of_query(&uri).ok().unwrap();
        assert_eq!(read.get("kind"), Some("a/b"));
        assert_eq!(read.get("empty"), None);
        assert_eq!(
            read.without("empty").query(),
            "?kind=a%2Fb&label=x%3D1&label=y"
        );
        let read = read.without("empty");
        assert_eq!(read.without("label").query(), "?kind=a%2Fb");
        assert_eq!(
            read.without("label").with("kind", "é&").query(),
            "?kind=%C3%A9%26"
        );
        assert_eq!(Fields::default().query(), "");
    }
}
