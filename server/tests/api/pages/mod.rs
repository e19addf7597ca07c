//! The pages of the dashboard: what every one of them has, and who may see it.

mod actions;
mod bulk;
mod content;
mod longest;
mod masks;
mod node_history;
mod people;
mod roles;
mod writes;

use windlass_server::{
    Role, Server, Sessions,
    axum::{
        body::Body,
        http::{Request, StatusCode, header},
    },
};

use serde_json::json;

use crate::kit::{Answer, Kit, request};

/// The most bytes of a page, with its style sheet and its script.
const MOST: usize = 60_000;

const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Every page that needs no task.
const PAGES: [&str; 12] = [
    "/",
    "/tasks",
    "/search?q=a",
    "/failures",
    "/people",
    "/bulk",
    "/bulk?action=retry&kind=mail",
    "/nodes",
    "/schedules",
    "/limits",
    "/doctor",
    "/tokens",
];

/// Checks what every page has, and returns its text.
fn checked(answer: &Answer) -> &str {
    let text = &answer.text;
    assert_eq!(
        answer.headers[header::CONTENT_TYPE],
        "text/html; charset=utf-8",
        "{text}"
    );
    assert_eq!(answer.headers[header::CONTENT_SECURITY_POLICY], POLICY);
    assert_eq!(answer.headers[header::CACHE_CONTROL], "no-store");
    assert_eq!(answer.headers[header::REFERRER_POLICY], "no-referrer");
    assert!(text.len() < MOST, "{} bytes", text.len());
    assert!(text.starts_with("<!DOCTYPE html>"));
    for inline in [
        "<style",
        "style=\"",
        " onclick",
        " onerror=\"",
        "javascript:",
        "http://",
        "https://",
    ] {
        assert!(!text.contains(inline), "{inline} in {text}");
    }
    let scripts: Vec<&str> = text.split("<script").skip(1).collect();
    assert!(
        scripts.iter().all(|script| script.starts_with(" src=\"")),
        "{text}"
    );
    text
}

impl Kit {
    /// Returns a page that a token may see.
    async fn page_as(&self, token: &str, path: &str) -> String {
        let answer = self.call_as(token, &format!("GET {path}"), "").await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text);
        checked(&answer).to_owned()
    }

    /// Returns a page as an admin sees it.
    pub(crate) async fn page(&self, path: &str) -> String {
        self.page_as(&self.admin, path).await
    }

    /// Sends a form.
    async fn posted(&self, path: &str, fields: &str) -> Answer {
        let mut form = request(&self.admin, &format!("POST {path}"), fields.to_owned());
        let kind = "application/x-www-form-urlencoded".parse().unwrap();
        form.headers_mut().insert(header::CONTENT_TYPE, kind);
        self.send(form).await
    }

    /// Sends a form that is refused, and returns the page.
    pub(crate) async fn refused_form(&self, path: &str, fields: &str) -> String {
        let answer = self.posted(path, fields).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{}", answer.text);
        checked(&answer).to_owned()
    }

    /// Sends a form, and returns the path of the page that follows.
    pub(crate) async fn form(&self, path: &str, fields: &str) -> String {
        let answer = self.posted(path, fields).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.text);
        answer.headers[header::LOCATION]
            .to_str()
            .unwrap()
            .to_owned()
    }
}

#[tokio::test]
async fn every_page_is_small_strict_and_names_its_command() {
    // A store in memory has no doctor.
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}/tasks.db", dir.path().display());
    let kit = Kit::with(windlass::store::Store::open(&url).await.unwrap()).await;
    for n in 0..60 {
        kit.submit(&format!("a-{n}"), "mail").await;
    }
    for path in PAGES {
        let page = kit.page(path).await;
        assert!(page.contains("<code id=\"cli\"><bdi>windlass "), "{path}");
        assert!(page.contains("role=\"search\""), "{path}");
        assert!(page.contains("id=\"age\" data-at="), "{path}");
    }
    let page = kit.page("/tasks/a-1").await;
    assert!(page.contains("<bdi>windlass get --history a-1</bdi>"));
}

#[tokio::test]
async fn style_and_script_are_kept_by_browsers_and_named_by_their_text() {
    let kit = Kit::new().await;
    let page = kit.page("/").await;
    let mut bytes = page.len();
    for (ending, kind) in [
        ("css", "text/css; charset=utf-8"),
        ("js", "text/javascript; charset=utf-8"),
        ("svg", "image/svg+xml"),
    ] {
        let path = page
            .split('"')
            .find(|part| part.starts_with("/assets/") && part.ends_with(ending));
        let path = path.unwrap_or_else(|| panic!("no {ending} in {page}"));
        let request = Request::builder()
            .uri(path)
            .header(header::HOST, "localhost");
        let answer = kit.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status, StatusCode::OK);
        assert_eq!(answer.headers[header::CONTENT_TYPE], kind);
        assert_eq!(
            answer.headers[header::CACHE_CONTROL],
            "public, max-age=31536000, immutable"
        );
        assert_eq!(answer.headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        bytes += answer.text.len();
    }
    assert!(bytes < MOST, "{bytes} bytes in all");
    assert_eq!(
        kit.get("/assets/style.css").await.status,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn a_stranger_is_told_how_to_open_a_session() {
    let kit = Kit::new().await;
    kit.submit("secret-id", "mail").await;
    for path in PAGES.into_iter().chain(["/tasks/secret-id"]) {
        let request = Request::builder()
            .uri(path)
            .header(header::HOST, "localhost");
        let answer = kit.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{path}");
        let page = checked(&answer);
        assert!(page.contains("windlass token link"), "{page}");
        assert!(
            !page.contains("secret-id") && !page.contains("<nav"),
            "{page}"
        );
    }
}

#[tokio::test]
async fn a_page_of_another_host_or_origin_is_refused_as_a_page() {
    let kit = Kit::new().await;
    let link = Sessions::new(&kit.store)
        .link("ann".parse().unwrap(), Role::Operate)
        .await
        .unwrap();
    let host = format!("{}:7474", link.host);
    let open = Request::builder()
        .method("POST")
        .uri(&link.path)
        .header(header::HOST, &host);
    let opened = kit
        .send(
            open.header("sec-fetch-site", "same-origin")
                .body(Body::empty())
                .unwrap(),
        )
        .await;
    assert_eq!(
        opened.headers[header::LOCATION],
        "/",
        "a session begins with the first page"
    );
    let cookie = opened.headers[header::SET_COOKIE]
        .to_str()
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .to_owned();
    kit.submit("a", "mail").await;
    let send = |method: &'static str, path: &'static str, headers: &'static [(&str, &str)]| {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::COOKIE, &cookie);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header(header::HOST, &host);
        }
        kit.send(request.body(Body::empty()).unwrap())
    };
    let other_host = send("GET", "/tasks", &[("host", "evil.example")]).await;
    assert_eq!(other_host.status, StatusCode::MISDIRECTED_REQUEST);
    checked(&other_host);
    for headers in [
        &[][..],
        &[("sec-fetch-site", "cross-site")],
        &[("origin", "http://evil.example")],
    ] {
        let forged = send("POST", "/tasks/a/commands/kill", headers).await;
        assert_eq!(forged.status, StatusCode::FORBIDDEN, "{headers:?}");
        checked(&forged);
    }
    let own = send(
        "POST",
        "/tasks/a/commands/pause",
        &[("sec-fetch-site", "same-origin")],
    )
    .await;
    assert_eq!(own.status, StatusCode::SEE_OTHER);
    let task = kit.client.commands("a").await.unwrap();
    assert_eq!(task.len(), 1, "only the form of our own page was taken");
    assert_eq!(task[0].by.as_ref().unwrap().as_str(), "ann");
}

#[tokio::test]
async fn pages_below_a_base_path_link_below_it() {
    let store = windlass::store::Store::open("memory:").await.unwrap();
    let server = Server::builder(&store)
        .base_path("/ops/windlass")
        .unwrap()
        .build();
    let kit = Kit::of(store, server).await;
    kit.submit("a", "mail").await;
    for path in [
        "/ops/windlass",
        "/ops/windlass/tasks",
        "/ops/windlass/tasks/a",
        "/ops/windlass/search?q=mail",
    ] {
        let page = kit.page(path).await;
        let links = page.split(['"']).filter(|part| part.starts_with('/'));
        for link in links {
            let is_back = page.contains(&format!("name=\"back\" value=\"{link}\""));
            assert!(
                link.starts_with("/ops/windlass") || is_back,
                "{link} in {path}"
            );
        }
    }
    let slash = kit.call("GET /ops/windlass/", "").await;
    assert_eq!(slash.headers[header::LOCATION], "/ops/windlass");
    let next = kit.form("/ops/windlass/tasks/a/commands/pause", "").await;
    assert!(next.starts_with("/ops/windlass/tasks/a?sent="), "{next}");
    let next = kit
        .form("/ops/windlass/zone", "zone=UTC&back=%2Ftasks%3Fkind%3Dmail")
        .await;
    assert_eq!(next, "/ops/windlass/tasks?kind=mail");
}

/// Regression: days and local times of the forms were read in the zone of the server, while the pages showed the chosen one.
#[tokio::test]
async fn times_are_read_in_the_zone_in_which_the_pages_show_them() {
    let kit = Kit::new().await;
    let page = async |path: &str| {
        let mut chosen = request(&kit.admin, &format!("GET {path}"), "");
        // No machine of a test has this zone.
        let cookie = "windlass_zone=Pacific/Marquesas".parse().unwrap();
        chosen.headers_mut().insert(header::COOKIE, cookie);
        let page = kit.send(chosen).await;
        assert_eq!(page.status, StatusCode::OK, "{path}: {}", page.text);
        page.text
    };
    let typed = "since=2024-03-01+09%3A00";
    let shown = page(&format!("/failures?{typed}")).await;
    assert!(shown.contains("in Pacific/Marquesas"), "{shown}");
    // The command line of the page reads the same time in any zone.
    assert!(
        shown.contains("windlass failures --since 2024-03-01T18:30:00Z"),
        "{shown}"
    );
    assert!(
        page("/failures?since=1h+ago")
            .await
            .contains("--since '1h ago'")
    );
    let lists = "submitted_from=2024-03-01+09%3A00&ended_until=2024-03-02";
    let shown = page(&format!("/tasks?{lists}")).await;
    for option in [
        "--submitted-from 2024-03-01T18:30:00Z",
        "--ended-until 2024-03-02T09:30:00Z",
    ] {
        assert!(shown.contains(option), "{option}: {shown}");
    }
    // The requests of the API take no cookie.
    let mut direct = request(&kit.admin, "GET /v1/failures?since=2024-03-01+09%3A00", "");
    direct
        .headers_mut()
        .insert(header::COOKIE, "windlass_zone=Nowhere".parse().unwrap());
    assert_eq!(kit.send(direct).await.status, StatusCode::OK);
    let spec = json!({"id": "s", "spec": {"run": {"kind": "mail"}, "cron": ["30 18 * * *"], "zone": "UTC", "since": "2020-01-01T00:00:00Z"}});
    let made = kit.call("POST /v1/schedules", spec.to_string()).await;
    assert!(made.status.is_success(), "{}", made.text);
    // From 9:00 to 9:30 there is one run, which is due at 18:30 UTC.
    let shown = page("/schedules/s?from=2024-03-01+08%3A59&to=2024-03-01+09%3A01").await;
    assert!(shown.contains("s@2024-03-01T18:30:00Z"), "{shown}");
    assert!(shown.contains("Backfill: 1 run"), "{shown}");
    assert_eq!(shown.matches("in Pacific/Marquesas").count(), 2, "{shown}");
}

#[tokio::test]
async fn the_zone_is_kept_in_a_cookie_and_leads_to_no_other_host() {
    let kit = Kit::new().await;
    kit.submit("a", "mail").await;
    for (back, path) in [
        ("%2F%2Fevil.example", "/"),
        ("https%3A%2F%2Fevil.example", "/"),
        ("%2F%5Cevil.example", "/"),
        ("%2Ftasks", "/tasks"),
    ] {
        assert_eq!(
            kit.form("/zone", &format!("zone=Asia%2FTokyo&back={back}"))
                .await,
            path
        );
    }
    let mut chosen = request(&kit.admin, "GET /tasks/a", "");
    let cookie = "windlass_zone=Asia/Tokyo".parse().unwrap();
    chosen.headers_mut().insert(header::COOKIE, cookie);
    let page = kit.send(chosen).await.text;
    assert!(page.contains(" JST\""), "{page}");
    assert!(kit.page("/tasks/a").await.contains(" UTC\""));
    let wrong = kit.call("POST /zone", "{}").await;
    assert_eq!(
        wrong.status,
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "not a form"
    );
}
