//! The paths of pages below the base path.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

/// Returns the path of a page. The first page of a base path has no `/` at its end.
pub(super) fn at(base: &str, path: &str) -> String {
    match (base, path) {
        ("", path) => path.to_owned(),
        (base, "/") => base.to_owned(),
        (base, path) => format!("{base}{path}"),
    }
}

/// Returns the path of a page that a request names, by its path below the base. A path that is not ours is that of the first
/// page.
pub(crate) fn ours(base: &str, path: &str) -> String {
    // Browsers leave tabs and line breaks out of a URL.
    let is_odd = |c: char| c == '\\' || c.is_control();
    let is_ours = path.starts_with('/') && !path.starts_with("//") && !path.contains(is_odd);
    at(base, if is_ours { path } else { "/" })
}

/// Sends a browser to a page, by its path below the base.
pub(super) fn to(base: &str, path: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    if let Ok(place) = HeaderValue::from_str(&ours(base, path)) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    response
}
