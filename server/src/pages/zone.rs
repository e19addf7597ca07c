//! The time zone of the pages: a cookie, so that it holds for every page and needs no script.

use axum::{
    extract::State,
    http::{HeaderMap, HeaderValue, header},
    response::Response,
};
use jiff::tz::TimeZone;
use std::sync::Arc;

use super::{Answer, form::Fields, path};
use crate::{access::Reader, app::App, problem::Problem};

/// The cookie with the name of the zone.
const COOKIE: &str = "windlass_zone";

/// Returns the zone that a browser has chosen, with its name; UTC by default.
pub(super) fn of(headers: &HeaderMap) -> (String, TimeZone) {
    let cookies = headers.get_all(header::COOKIE).iter();
    let texts = cookies.filter_map(|value| value.to_str().ok());
    let mut pairs = texts.flat_map(|text| text.split(';'));
    let chosen = pairs.find_map(|pair| match pair.trim().split_once('=') {
        Some((COOKIE, name)) => Some(name.to_owned()),
        _ => None,
    });
    let found = chosen.and_then(|name| Some((TimeZone::get(&name).ok()?, name)));
    match found {
        Some((zone, name)) => (name, zone),
        None => ("UTC".to_owned(), TimeZone::UTC),
    }
}

/// Takes the zone that a form names, and shows the page from which it came.
pub(super) async fn choose(State(app): State<Arc<App>>, _by: Reader, fields: Fields) -> Answer {
    let name = fields.get("zone").unwrap_or("UTC");
    let is_name = name
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"/_+-".contains(&b));
    if !is_name || TimeZone::get(name).is_err() {
        let what = format!(
            "'{name}' is not the name of a time zone; give one such as Europe/Berlin or UTC"
        );
        return Err(Problem::invalid("zone", what).into());
    }
    let base = &app.settings.base_path;
    let path = if base.is_empty() { "/" } else { base };
    let mut response: Response = path::to(base, fields.get("back").unwrap_or("/"));
    let cookie = format!("{COOKIE}={name}; Path={path}; Max-Age=31536000; HttpOnly; SameSite=Lax");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    Ok(response)
}
