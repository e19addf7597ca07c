//! Sessions of browsers: who opens one, and what pages of others cannot do with it.

use windlass_server::{
    Role, Sessions,
    axum::{
        body::Body,
        http::{Request, header},
    },
};

use crate::kit::{Answer, Kit, request};

/// A browser that shows pages of the server.
struct Browser<'a> {
    kit: &'a Kit,
    host: String,
    cookie: Option<String>,
}

impl<'a> Browser<'a> {
    /// Opens the link of a role.
    async fn open(kit: &'a Kit, role: Role) -> Self {
        let link = Sessions::new(&kit.store)
            .link("ann".parse().unwrap(), role)
            .await
            .unwrap();
        let mut browser = Self {
            kit,
            host: format!("{}:7474", link.host),
            cookie: None,
        };
        let opened = browser.page(&format!("POST {}", link.path), "").await;
        browser.take_cookie(&opened);
        browser
    }

    fn take_cookie(&mut self, opened: &Answer) {
        assert_eq!(opened.status, 303, "{}", opened.text);
        assert_eq!(opened.headers[header::LOCATION], "/");
        let cookie = opened.headers[header::SET_COOKIE].to_str().unwrap();
        let (pair, rest) = cookie.split_once(';').unwrap();
        assert!(pair.starts_with("windlass=wls_"), "{cookie}");
        assert_eq!(rest, " Path=/; HttpOnly; SameSite=Lax");
        self.cookie = Some(pair.to_owned());
    }

    /// Sends a request with more headers.
    async fn send(&self, line: &str, body: &str, headers: &[(&str, &str)]) -> Answer {
        let (method, path) = line.split_once(' ').unwrap();
        let mut request = Request::builder().method(method).uri(path);
        request = request.header(header::HOST, &self.host);
        if let Some(cookie) = &self.cookie {
            request = request.header(header::COOKIE, format!("a=b; {cookie}; c=d"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.to_owned()));
        self.kit.send(request.unwrap()).await
    }

    /// Sends a request as a page of the server does.
    async fn page(&self, line: &str, body: &str) -> Answer {
        let own = [("sec-fetch-site", "same-origin")];
        self.send(line, body, &own).await
    }
}

#[tokio::test]
async fn a_link_leads_to_the_page_that_it_names_and_to_no_other_site() {
    let kit = Kit::new().await;
    for (to, leads) in [
        ("/tasks?label=batch%3Da", "/tasks?label=batch%3Da"),
        ("/", "/"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("/\\evil.example", "/"),
        ("/\t/evil.example", "/"),
        ("tasks", "/"),
    ] {
        let sessions = Sessions::new(&kit.store);
        let link = sessions
            .link("ann".parse().unwrap(), Role::Read)
            .await
            .unwrap();
        let browser = Browser {
            kit: &kit,
            host: link.host,
            cookie: None,
        };
        let encoded: String = to.bytes().map(|b| format!("%{b:02X}")).collect();
        let opened = browser
            .page(&format!("POST {}?to={encoded}", link.path), "")
            .await;
        assert_eq!(opened.status, 303, "{}", opened.text);
        assert_eq!(opened.headers[header::LOCATION], leads, "{to}");
    }
}

#[tokio::test]
async fn a_link_opens_one_session_and_its_preview_opens_none() {
    let kit = Kit::new().await;
    let sessions = Sessions::new(&kit.store);
    let link = sessions
        .link("ann".parse().unwrap(), Role::Operate)
        .await
        .unwrap();
    let label = link.host.strip_suffix(".localhost").unwrap();
    assert_eq!((label.len(), &label[..1]), (25, "w"));
    let mut browser = Browser {
        kit: &kit,
        host: format!("{}:7474", link.host),
        cookie: None,
    };
    for _ in 0..2 {
        let shown = browser.send(&format!("GET {}", link.path), "", &[]).await;
        assert_eq!(shown.status, 200);
        assert!(
            shown.text.contains("<form method=\"post\"><button>"),
            "{}",
            shown.text
        );
        assert!(!shown.text.contains("wll_"), "{}", shown.text);
        assert!(!shown.headers.contains_key(header::SET_COOKIE));
        assert_eq!(shown.headers[header::REFERRER_POLICY], "no-referrer");
    }
    let opened = browser.page(&format!("POST {}", link.path), "").await;
    browser.take_cookie(&opened);
    let again = browser.page(&format!("POST {}", link.path), "").await;
    assert_eq!(again.problem(410), "gone");
    assert_eq!(browser.page("GET /v1/tasks", "").await.status, 200);
    let made = browser
        .page("POST /v1/tasks", r#"{"id":"a","kind":"k"}"#)
        .await;
    assert_eq!(made.status, 201, "{}", made.text);
    let by = kit.client.history("a", 1).await.unwrap()[0].by.clone();
    assert_eq!(by.unwrap().as_str(), "ann");
    // The role is that of the link.
    let refused = browser.page("GET /v1/tokens", "").await;
    assert_eq!(refused.problem(403), "forbidden");
    // Another server of the namespace knows the session.
    let other = Kit::of_server(&kit, windlass_server::Server::builder(&kit.store).build());
    browser.kit = &other;
    assert_eq!(browser.page("GET /v1/tasks", "").await.status, 200);
    let ended = browser.page("POST /session/end", "").await;
    assert!(
        ended.headers[header::SET_COOKIE]
            .to_str()
            .unwrap()
            .contains("Max-Age=0")
    );
    let refused = browser.page("GET /v1/tasks", "").await;
    assert_eq!(refused.problem(401), "unauthorized");
}

#[tokio::test]
async fn a_session_serves_no_page_of_another_origin() {
    let kit = Kit::new().await;
    let browser = Browser::open(&kit, Role::Admin).await;
    let host = browser.host.clone();
    let own = format!("http://{host}");
    let other_port = own.replace("7474", "3000");
    let body = r#"{"kind":"k"}"#;
    for foreign in [
        &[][..],
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site")],
        &[("sec-fetch-site", "none")],
        // What says where the page is counts more than what may be forged.
        &[("sec-fetch-site", "same-site"), ("origin", &own)],
        &[("origin", &other_port)],
        &[("origin", "http://localhost:7474")],
        &[("origin", "null")],
        &[("origin", &own), ("origin", &other_port)],
    ] {
        let refused = browser.send("POST /v1/tasks", body, foreign).await;
        assert_eq!(refused.problem(403), "forbidden", "{foreign:?}");
    }
    assert_eq!(
        kit.get("/v1/tasks").await.json()["tasks"],
        serde_json::json!([])
    );
    let made = browser
        .send("POST /v1/tasks", body, &[("origin", &own)])
        .await;
    assert_eq!(made.status, 201, "{}", made.text);
    let foreign = [("sec-fetch-site", "same-site"), ("sec-fetch-mode", "cors")];
    let refused = browser.send("GET /v1/tasks", "", &foreign).await;
    assert_eq!(refused.problem(403), "forbidden");
    let link = [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
    ];
    assert_eq!(browser.send("GET /v1/tasks", "", &link).await.status, 200);
    // Nor is one opened by a page of others.
    let sessions = Sessions::new(&kit.store);
    let link = sessions
        .link("ann".parse().unwrap(), Role::Read)
        .await
        .unwrap();
    let line = format!("POST {}", link.path);
    let refused = browser.send(&line, "", &[("origin", &other_port)]).await;
    assert_eq!(refused.problem(403), "forbidden");
    assert_eq!(
        browser.page(&line, "").await.status,
        303,
        "it still can be opened"
    );
}

#[tokio::test]
async fn the_session_of_a_token_is_what_the_token_is_and_ends_with_it() {
    let kit = Kit::new().await;
    let token = kit.token("ci", Role::Operate, &["mail"]).await;
    let mut browser = Browser::open(&kit, Role::Read).await;
    let asked = browser.send("GET /session", "", &[]).await;
    assert!(asked.text.contains("name=\"token\""), "{}", asked.text);
    let wrong = browser.page("POST /session", "token=wlt_none").await;
    assert_eq!(wrong.problem(401), "unauthorized");
    let opened = browser
        .page("POST /session", &format!("token={token}"))
        .await;
    browser.take_cookie(&opened);
    let made = browser
        .page("POST /v1/tasks", r#"{"id":"a","kind":"mail"}"#)
        .await;
    assert_eq!(made.status, 201, "{}", made.text);
    let by = kit.client.history("a", 1).await.unwrap()[0].by.clone();
    assert_eq!(by.unwrap().as_str(), "token ci");
    let refused = browser.page("POST /v1/tasks", r#"{"kind":"exec"}"#).await;
    assert_eq!(refused.problem(403), "forbidden");
    // A stream of the session ends with it, too.
    let cookie = browser.cookie.clone().unwrap();
    let stream = Request::builder()
        .uri("/v1/changes")
        .header(header::HOST, &browser.host)
        .header(header::COOKIE, &cookie);
    let stream = kit.open(stream.body(Body::empty()).unwrap()).await;
    assert_eq!(stream.status(), 200);
    assert_eq!(kit.call("DELETE /v1/tokens/ci", "").await.status, 204);
    let refused = browser.page("GET /v1/tasks", "").await;
    assert_eq!(refused.problem(401), "unauthorized");
    let rest = windlass_server::axum::body::to_bytes(stream.into_body(), 1 << 20);
    let rest = tokio::time::timeout(crate::kit::BOUND, rest)
        .await
        .expect("an end of the stream")
        .unwrap();
    assert!(String::from_utf8_lossy(&rest).contains("event: end"));
}

/// Opens a session with a token.
async fn open_with<'a>(kit: &'a Kit, token: &str) -> Browser<'a> {
    let mut browser = Browser::open(kit, Role::Read).await;
    let opened = browser
        .page("POST /session", &format!("token={token}"))
        .await;
    browser.take_cookie(&opened);
    browser
}

/// Regression: the cookie of a revoked read token was the admin of the next token of the same name.
#[tokio::test]
async fn a_session_belongs_to_one_token_and_not_to_the_next_of_its_name() {
    let kit = Kit::new().await;
    let token = kit.token("ci", Role::Read, &[]).await;
    let browser = open_with(&kit, &token).await;
    assert_eq!(browser.page("GET /v1/tasks", "").await.status, 200);
    assert_eq!(kit.call("DELETE /v1/tokens/ci", "").await.status, 204);
    let next = kit.token("ci", Role::Admin, &[]).await;
    assert_eq!(kit.call_as(&next, "GET /v1/tokens", "").await.status, 200);
    for line in ["GET /v1/tasks", "GET /v1/tokens"] {
        let refused = browser.page(line, "").await;
        assert_eq!(refused.problem(401), "unauthorized", "{line}");
    }
}

#[tokio::test]
async fn a_session_ends_with_the_secret_that_opened_it() {
    let kit = Kit::new().await;
    let token = kit.token("ci", Role::Operate, &[]).await;
    let old = open_with(&kit, &token).await;
    // A rotation with an overlap: both secrets are valid, and so are their sessions.
    let rotated = kit
        .call("POST /v1/tokens/ci/rotate?overlap=1h", "")
        .await
        .json();
    let second = rotated["secret"].as_str().unwrap().to_owned();
    let new = open_with(&kit, &second).await;
    for browser in [&old, &new] {
        assert_eq!(browser.page("GET /v1/tasks", "").await.status, 200);
    }
    // One because of a leak.
    let rotated = kit.call("POST /v1/tokens/ci/rotate?overlap=0s", "").await;
    assert_eq!(rotated.status, 200, "{}", rotated.text);
    let third = rotated.json()["secret"].as_str().unwrap().to_owned();
    assert_eq!(kit.call_as(&third, "GET /v1/tasks", "").await.status, 200);
    for browser in [&old, &new] {
        let refused = browser.page("GET /v1/tasks", "").await;
        assert_eq!(refused.problem(401), "unauthorized");
    }
    let latest = open_with(&kit, &third).await;
    assert_eq!(latest.page("GET /v1/tasks", "").await.status, 200);
}

/// Regression: a user had twenty sessions of each role.
#[tokio::test]
async fn the_sessions_of_a_user_are_counted_whatever_their_roles_are() {
    let kit = Kit::new().await;
    for n in 0..24 {
        let role = [Role::Read, Role::Operate, Role::Admin][n % 3];
        Browser::open(&kit, role).await;
    }
    let values = kit.store.registry().values("server/session/").await;
    assert_eq!(values.unwrap().len(), 20);
}

#[tokio::test]
async fn no_session_is_opened_under_a_name_whose_cookies_reach_others() {
    let kit = Kit::new().await;
    let link = Sessions::new(&kit.store)
        .link("ann".parse().unwrap(), Role::Admin)
        .await
        .unwrap();
    for host in ["localhost:7474", "127.0.0.1:7474"] {
        let browser = Browser {
            kit: &kit,
            host: host.to_owned(),
            cookie: None,
        };
        for line in [&format!("POST {}", link.path), "GET /session"] {
            let refused = browser.page(line, "").await;
            assert_eq!(refused.problem(403), "forbidden", "{host} {line}");
            assert!(!refused.text.contains(&link.host), "{}", refused.text);
        }
    }
    let browser = Browser {
        kit: &kit,
        host: "wevil.localhost:7474".to_owned(),
        cookie: None,
    };
    let refused = browser.page(&format!("POST {}", link.path), "").await;
    assert_eq!(refused.problem(421), "wrong_host");
}

#[tokio::test]
async fn a_session_is_no_token_and_a_token_no_session() {
    let kit = Kit::new().await;
    let mut browser = Browser::open(&kit, Role::Admin).await;
    let cookie = browser.cookie.clone().unwrap();
    let secret = cookie.strip_prefix("windlass=").unwrap();
    let refused = kit.send(request(secret, "GET /v1/tasks", "")).await;
    assert_eq!(refused.problem(401), "unauthorized");
    browser.cookie = Some(format!("windlass={}", kit.admin));
    let refused = browser.page("GET /v1/tasks", "").await;
    assert_eq!(refused.problem(401), "unauthorized");
}

#[tokio::test]
async fn a_user_has_some_sessions_and_the_oldest_ends_for_one_more() {
    let kit = Kit::new().await;
    let first = Browser::open(&kit, Role::Read).await;
    for _ in 0..20 {
        Browser::open(&kit, Role::Read).await;
    }
    let ended = first.page("GET /v1/time", "").await;
    assert_eq!(ended.problem(401), "unauthorized");
    let values = kit.store.registry().values("server/session/").await;
    assert_eq!(values.unwrap().len(), 20);
    let links = kit.store.registry().values("server/link/").await;
    assert_eq!(links.unwrap().len(), 0, "a link that was opened is gone");
}

/// A page of another origin can open an address of ours with the cookies of ours, and a backup takes as much room as the
/// store.
#[tokio::test]
async fn a_page_of_another_origin_makes_no_backup() {
    let kit = Kit::new().await;
    let browser = Browser::open(&kit, Role::Admin).await;
    let opens = [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
    ];
    let refused = browser.send("GET /v1/backup", "", &opens).await;
    assert_eq!(refused.problem(403), "forbidden");
    let ours = browser.page("GET /v1/backup", "").await;
    assert_eq!(ours.problem(501), "unsupported");
}
