//! Where a request comes from: by which name, and from a page of which origin.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts};

use crate::{app::App, connection::Connection, problem::Problem, way::Way};

/// Refuses a request that a page of another origin may have made, with the cookies of ours.
pub(crate) fn check_page(head: &Parts) -> Result<(), Problem> {
    if !head.method.is_safe() {
        return check_same_origin(head);
    }
    let value = |name: &str| head.headers.get(name).map(HeaderValue::as_bytes);
    let is_own =
        value("sec-fetch-site").is_none_or(|site| site == b"same-origin" || site == b"none");
    if is_own || value("sec-fetch-mode") == Some(b"navigate") {
        return Ok(());
    }
    Err(other_origin())
}

/// Refuses a request that no page of ours has made.
pub(crate) fn check_same_origin(head: &Parts) -> Result<(), Problem> {
    let one = |name: &str| {
        let mut all = head.headers.get_all(name).iter();
        let value = all.next().filter(|_| all.next().is_none());
        value.and_then(|value| value.to_str().ok())
    };
    let is_own = match (one("sec-fetch-site"), one("origin"), one("host")) {
        (Some(site), _, _) => site == "same-origin",
        (None, Some(origin), Some(host)) => {
            origin.split_once("://").is_some_and(|(scheme, ours)| {
                let is_own = ours.eq_ignore_ascii_case(host);
                is_own && scheme_of(head).is_none_or(|known| known == scheme)
            })
        }
        _ => false,
    };
    match is_own {
        true => Ok(()),
        false => Err(other_origin()),
    }
}

/// Returns the scheme by which a client reaches the server; `None` where it is not known, as in a program that mounts the
/// routes.
fn scheme_of(head: &Parts) -> Option<&'static str> {
    match head.extensions.get::<Arc<Connection>>()?.way {
        Way::Tcp { is_encrypted, .. } => Some(if is_encrypted { "https" } else { "http" }),
        // A proxy is at the other end, which may do either.
        Way::Socket { .. } => None,
    }
}

fn other_origin() -> Problem {
    Problem::forbidden(
        "a page of another origin may have made this request: it has neither 'Sec-Fetch-Site: same-origin' nor the 'Origin' of this \
         server; make it from a page of this server, or with a token",
    )
}

/// Refuses a request for another name than ours: a page of a browser whose name was made to point here.
pub(crate) async fn check_host(app: &App, head: &Parts) -> Result<(), Problem> {
    let mut hosts = head.headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok(),
        _ => None,
    };
    // A request line with a whole URL names the host there.
    let in_line = head.uri.host();
    if let Some(name) = host.map(without_port)
        && is_ours(app, name).await
        && (in_line.is_none() || is_ours(app, in_line.unwrap_or_default()).await)
    {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::MISDIRECTED_REQUEST,
        "wrong_host",
        "the header 'Host' does not name this server; `windlass serve --host NAME` adds a name",
    ))
}

async fn is_ours(app: &App, name: &str) -> bool {
    let known = &app.settings.hosts;
    known.iter().any(|known| known.eq_ignore_ascii_case(name)) || app.keyring.is_host(name).await
}

/// Returns a host without its port: `[::1]:80` is `[::1]`.
pub(crate) fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.is_empty() => {
            let is_bare_v6 = name.contains(':') && !name.ends_with(']');
            if is_bare_v6 { host } else { name }
        }
        _ => host,
    }
}

/// Refuses a page of a browser that reaches the socket through something that forwards to it.
pub(crate) fn check_no_browser(headers: &HeaderMap) -> Result<(), Problem> {
    let of_browser = ["origin", "sec-fetch-site", "sec-fetch-mode", "cookie"];
    if of_browser.iter().any(|name| headers.contains_key(*name)) {
        return Err(Problem::forbidden(
            "a browser cannot use the server's socket without a token",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_of_a_host_is_left_out() {
        for (host, name) in [
            ("localhost", "localhost"),
            ("localhost:8080", "localhost"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
            ("::1", "::1"),
            ("a:b", "a:b"),
            (":80", ":80"),
        ] {
            assert_eq!(without_port(host), name, "{host}");
        }
    }
}
