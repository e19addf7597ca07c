//! [`Page`]: the frame that every page has: search, navigation, the age of its data, and the command line that gives the same.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{FromRequestParts, OriginalUri},
    http::{StatusCode, Uri, header, request::Parts},
    response::{IntoResponse, Response},
};
use jiff::{Timestamp, Zoned, tz::TimeZone};
use maud::{Markup, html};
use windlass::store::{Error, Filter};

use super::{
    api::{Api, Failure, Routes},
    assets,
    cli::quoted,
    form::Fields,
    path, text, zone,
};
use crate::{
    access::Reader,
    app::App,
    auth::{Caller, Role},
    local::Local,
    mask::Hiding,
    problem::Problem,
};

/// The type of a page.
pub(super) const HTML: &str = "text/html; charset=utf-8";

/// The longest wait of an action for its outcome.
const WAIT: Duration = Duration::from_secs(1);

/// The zones that the switch offers beside the one that is chosen.
const ZONES: [&str; 12] = [
    "UTC",
    "Europe/London",
    "Europe/Berlin",
    "Africa/Lagos",
    "Asia/Kolkata",
    "Asia/Singapore",
    "Asia/Tokyo",
    "Australia/Sydney",
    "America/Sao_Paulo",
    "America/New_York",
    "America/Chicago",
    "America/Los_Angeles",
];

/// A page of the navigation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Overview,
    Tasks,
    Failures,
    People,
    Nodes,
    Schedules,
    Limits,
    Doctor,
    Tokens,
    None,
}

/// The path and the name of each page of the navigation, and whether only an admin, or only a caller without a scope may see it.
const PLACES: [(Place, &str, &str, bool, bool); 9] = [
    (Place::Overview, "/", "Overview", false, false),
    (Place::Tasks, "/tasks", "Tasks", false, false),
    (Place::Failures, "/failures", "Failures", false, false),
    (Place::People, "/people", "People", false, false),
    (Place::Nodes, "/nodes", "Nodes", false, true),
    (Place::Schedules, "/schedules", "Schedules", false, false),
    (Place::Limits, "/limits", "Limits", false, true),
    (Place::Doctor, "/doctor", "Doctor", true, true),
    (Place::Tokens, "/tokens", "Tokens", true, true),
];

/// A page that a caller has asked for.
pub(super) struct Page {
    pub(super) api: Api,
    /// The caller, as the handlers of the API get it.
    pub(super) by: Reader,
    /// The path below which the pages are.
    pub(super) base: String,
    pub(super) now: Timestamp,
    pub(super) zone: TimeZone,
    /// How long an action waits for its outcome, so that the page that follows has the proof.
    wait: Duration,
    zone_name: String,
    /// The store, as the command line names it; `None` for the default one.
    store: Option<String>,
    /// Why the store takes no writes.
    write_error: Option<Error>,
    /// What is hidden; `None` when the store does not say.
    hiding: Option<Arc<Hiding>>,
    /// The path of the page below the base, and its query.
    uri: Uri,
}

impl FromRequestParts<Arc<App>> for Page {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        let by = Reader::from_request_parts(parts, app).await?;
        let routes = parts.extensions.get::<Routes>().cloned();
        let missing = || {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            Problem::new(status, "unusable", "the pages have no routes")
        };
        let (zone_name, zone) = zone::of(&parts.headers);
        let api = Api {
            local: Local::chosen(&zone),
            routes: routes.ok_or_else(missing)?,
            caller: by.caller().clone(),
            held: parts.extensions.get().cloned(),
        };
        let whole = parts.extensions.get::<OriginalUri>();
        let uri = whole.map_or_else(|| parts.uri.clone(), |whole| whole.0.clone());
        let hiding = by.hiding().await.ok();
        Ok(Self {
            api,
            by,
            base: app.settings.base_path.clone(),
            now: app.client.now(),
            zone,
            wait: WAIT.min(app.settings.longest_wait),
            zone_name,
            store: app.settings.store.clone(),
            write_error: app.client.write_error().await,
            hiding,
            uri,
        })
    }
}

impl Page {
    /// Names the zone in which a form reads days and local times, beside its field.
    pub(super) fn typed_zone(&self) -> Markup {
        html! { span.dim { "in " (self.zone_name) } }
    }

    /// Returns a time in the zone that is chosen.
    pub(super) fn local_now(&self) -> Zoned {
        self.api.local.at(self.now)
    }

    pub(super) fn caller(&self) -> &Caller {
        self.by.caller()
    }

    /// Returns whether the caller may change tasks.
    pub(super) fn may_operate(&self) -> bool {
        self.caller().role.allows(Role::Operate)
    }

    pub(super) fn is_admin(&self) -> bool {
        self.caller().role.allows(Role::Admin)
    }

    /// Returns whether the caller may see what concerns the whole namespace.
    pub(super) fn sees_everything(&self) -> bool {
        self.caller().scope.is_everything()
    }

    /// Returns whether the caller may select tasks by these values: a mask refuses a filter that asks for what it hides. A
    /// page links only lists that are not refused.
    pub(super) fn may_select(&self, pairs: &[(&str, &str)]) -> bool {
        let Some(hiding) = &self.hiding else {
            return true;
        };
        let mut filter = Filter::default();
        for (name, value) in pairs {
            match *name {
                "kind" => filter.kind = value.parse().ok(),
                "fingerprint" => filter.fingerprint = Some((*value).to_owned()),
                "error" => filter.error = Some((*value).to_owned()),
                "limit_key" => filter.limit_key = Some((*value).to_owned()),
                _ => {}
            }
        }
        let scope = &self.caller().scope.kinds;
        hiding.check_filter(&filter, scope).is_ok()
    }

    /// Returns the parameter by which a request of an action waits.
    pub(super) fn wait(&self) -> String {
        format!("wait={}ms", self.wait.as_millis())
    }

    /// Returns the query of the page.
    pub(super) fn query(&self) -> Result<Fields, Failure> {
        Fields::of_query(&self.uri)
    }

    /// Sends the browser to a page.
    pub(super) fn to(&self, path: &str) -> Response {
        path::to(&self.base, path)
    }

    /// Returns the page with a body. `cli` has the command line that gives the same.
    pub(super) fn show(&self, (place, title): (Place, &str), cli: &str, body: &Markup) -> Response {
        let page = self.frame((place, title), cli, body).into_string();
        ([(header::CONTENT_TYPE, HTML)], page).into_response()
    }

    fn frame(&self, (place, title): (Place, &str), cli: &str, body: &Markup) -> Markup {
        let base = &self.base;
        // Tasks are counted by kind, and not by label.
        let is_counted = self.caller().scope.labels.is_empty();
        let shows = |of: Place, admin: bool, whole: bool| {
            let may = (!admin || self.is_admin()) && (!whole || self.sees_everything());
            may && (of != Place::Overview || is_counted)
        };
        html! {
            (maud::DOCTYPE)
            html lang="en" data-base=(base) {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (text::cut(title, 80)) " · windlass" }
                    link rel="stylesheet" href={ (base) "/assets/" (assets::style().name) };
                    link rel="icon" href={ (base) "/assets/" (assets::icon().name) };
                    script src={ (base) "/assets/" (assets::script().name) } defer {}
                }
                body {
                    a.skip href="#main" { "Skip to the content" }
                    header {
                        nav aria-label="Pages" {
                            a.logo href=(path::at(base, "/")) { "windlass" }
                            @for (of, path, name, admin, whole) in PLACES {
                                @if shows(of, admin, whole) {
                                    a href=(path::at(base, path)) aria-current=[(of == place).then_some("page")] { (name) }
                                }
                            }
                        }
                        form.search action={ (base) "/search" } role="search" {
                            input type="search" name="q" aria-label="Search by id, prefix, label or kind" maxlength="300"
                                placeholder="id, prefix, label or kind" autocomplete="off" required;
                            button { "Search" }
                        }
                    }
                    main #main tabindex="-1" { (self.writes()) (body) }
                    (self.footer(cli))
                }
            }
        }
    }

    /// Says that the store takes no writes, and why to a caller who may know where it is.
    fn writes(&self) -> Markup {
        let Some(error) = &self.write_error else {
            return Markup::default();
        };
        html! {
            p.banner role="alert" {
                strong { "The store takes no writes, so no task makes progress. " }
                @if self.sees_everything() { bdi { (text::cut(&error.to_string(), 400)) } } @else { "The operator of the server sees the reason." }
            }
        }
    }

    /// Returns the line of a shell after which a command is for the store of these pages; `None` for the default store, and for
    /// a caller who may not know where it is.
    pub(super) fn store_line(&self) -> Option<String> {
        let store = self.store.as_ref().filter(|_| self.sees_everything())?;
        Some(format!("export WINDLASS_STORE={}", quoted(store)))
    }

    fn footer(&self, cli: &str) -> Markup {
        let base = &self.base;
        let path = self.uri.path();
        let back = path.strip_prefix(base.as_str()).unwrap_or(path);
        let back = match self.uri.query() {
            Some(query) => format!("{back}?{query}"),
            None => back.to_owned(),
        };
        let role = self.caller().role.as_str();
        html! {
            footer {
                p.cli { span.dim { "The same on the command line " } code #cli { bdi { (cli) } } }
                @if let Some(line) = self.store_line() {
                    p.cli { span.dim { "The commands of these pages need " } code.command { bdi { (line) } } }
                }
                div.status {
                    span #age data-at=(self.now) { "Data of " (text::clock(self.now, &self.zone)) }
                    button #pause type="button" hidden aria-pressed="false" { "Pause updates" }
                    form method="post" action={ (base) "/zone" } {
                        input type="hidden" name="back" value=(back);
                        label { "Times in "
                            select name="zone" {
                                @if !ZONES.contains(&self.zone_name.as_str()) {
                                    option selected { (self.zone_name) }
                                }
                                @for zone in ZONES {
                                    option selected[zone == self.zone_name] { (zone) }
                                }
                            }
                        }
                        button { "Set" }
                    }
                    span { bdi { (self.caller().author.as_str()) } " (" (role) ")" }
                    @if self.caller().is_proven_by_browser() {
                        form method="post" action={ (base) "/session/end" } { button { "End the session" } }
                    }
                }
            }
        }
    }
}
