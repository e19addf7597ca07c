//! What each page looks like, and who can use it.

use serde_json::{Value, json};
use windlass::NewTask;
use windlass_server::Role;

use crate::{
    dashboard::Dashboard,
    webdriver::{ENTER, TAB},
};

/// Every page of a filled namespace.
pub(crate) const PAGES: [(&str, &str); 13] = [
    ("overview", "/"),
    ("tasks", "/tasks"),
    ("task", "/tasks/sync-1"),
    ("failed-task", "/tasks/mail-3"),
    ("search", "/search?q=mail"),
    ("failures", "/failures"),
    ("people", "/people"),
    ("asking-task", "/tasks/deploy-1.4"),
    ("nodes", "/nodes"),
    ("schedules", "/schedules"),
    ("limits", "/limits"),
    ("doctor", "/doctor"),
    ("tokens", "/tokens"),
];

/// Returns the rules of WCAG A and AA that a page breaks, by axe-core.
pub(crate) async fn broken_rules(dashboard: &Dashboard) -> Vec<String> {
    let path = std::env::var("WINDLASS_AXE")
        .expect("WINDLASS_AXE names axe.min.js; `cargo xtask browser` gets it");
    let axe = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    dashboard.browser.run(&axe).await;
    dashboard.browser
        .run(
            "window.found = null; axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] }) \
             .then((all) => { window.kept = all.passes.length; window.found = all.violations.map((one) => one.id + ': ' + one.nodes.map((node) => node.html).join(' ')); });",
        )
        .await;
    dashboard
        .browser
        .until("the result of axe-core", "window.found !== null")
        .await;
    let kept = dashboard.browser.value("window.kept").await;
    assert!(
        kept.as_u64().unwrap() >= 10,
        "axe-core has compared {kept} rules only"
    );
    let found = dashboard.browser.value("window.found").await;
    found
        .as_array()
        .unwrap()
        .iter()
        .map(Value::to_string)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: cargo xtask browser"]
async fn every_page_is_accessible_dark_and_light_and_fits_a_phone() {
    let mut dashboard = Dashboard::open(Role::Admin).await;
    dashboard.fill().await;
    for (name, path) in PAGES {
        dashboard.go(path).await;
        dashboard
            .browser
            .until(
                "the heading",
                "document.querySelectorAll('h1').length === 1",
            )
            .await;
        for theme in ["light", "dark"] {
            dashboard.browser.theme(theme).await;
            for (width, height) in [(1100, 800), (390, 780)] {
                dashboard.browser.resize(width, height).await;
                let wide = dashboard
                    .browser
                    .value("document.documentElement.scrollWidth")
                    .await;
                assert!(
                    wide.as_u64().unwrap() <= u64::from(width),
                    "{name} is {wide} wide at {width}"
                );
                let broken = broken_rules(&dashboard).await;
                assert!(broken.is_empty(), "{name}, {theme}, {width}: {broken:#?}");
            }
        }
        let back = dashboard
            .browser
            .value("getComputedStyle(document.body).backgroundColor")
            .await;
        assert_eq!(back, "rgb(18, 22, 28)", "{name} is dark");
        dashboard.browser.resize(1100, 800).await;
    }
    dashboard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: cargo xtask browser"]
async fn the_keyboard_alone_finds_a_task_and_pauses_it() {
    let mut dashboard = Dashboard::open(Role::Operate).await;
    dashboard.fill().await;
    dashboard
        .browser
        .until(
            "the script",
            "document.documentElement.dataset.live === 'on'",
        )
        .await;
    dashboard.browser.press("/").await;
    dashboard
        .browser
        .until(
            "the focus in the search",
            "document.activeElement.name === 'q'",
        )
        .await;
    dashboard.browser.press(&format!("sync-0{ENTER}")).await;
    dashboard
        .browser
        .until(
            "the page of the task",
            "location.pathname === '/tasks/sync-0'",
        )
        .await;
    dashboard.browser.until_text("worker-1").await;
    for _ in 0..40 {
        dashboard.browser.press(TAB).await;
        let focus = dashboard
            .browser
            .value("document.activeElement.textContent")
            .await;
        let outline = dashboard
            .browser
            .value("getComputedStyle(document.activeElement).outlineStyle")
            .await;
        assert_eq!(outline, "solid", "the focus on {focus} is visible");
        if focus == "Pause" {
            dashboard.browser.press(ENTER).await;
            dashboard.browser.until_text("stopped after ").await;
            dashboard.until_state("sync-0", "paused").await;
            return dashboard.close().await;
        }
    }
    panic!(
        "the button is not reached:\n{}",
        dashboard.browser.text().await
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: cargo xtask browser"]
async fn pages_are_read_and_forms_work_without_scripts() {
    let mut dashboard = Dashboard::open(Role::Operate).await;
    dashboard.fill().await;
    dashboard
        .browser
        .devtools(
            "Emulation.setScriptExecutionDisabled",
            &json!({ "value": true }),
        )
        .await;
    dashboard.go("/tasks").await;
    let live = dashboard
        .browser
        .value("document.documentElement.dataset.live ?? 'off'")
        .await;
    assert_eq!(live, "off", "the script does not run");
    let is_hidden = dashboard
        .browser
        .value("document.getElementById('pause').hidden")
        .await;
    assert_eq!(is_hidden, true, "what needs the script is not offered");
    dashboard
        .browser
        .fill(".filter input[name=kind]", "sync")
        .await;
    dashboard.browser.click(".filter button").await;
    dashboard.browser.until("the filtered list", "location.search.includes('kind=sync') && document.querySelectorAll('tbody tr').length === 4").await;
    dashboard.go("/tasks/sync-0").await;
    dashboard
        .browser
        .click("form[action$='/commands/pause'] button")
        .await;
    dashboard.browser.until_text("stopped after ").await;
    dashboard
        .browser
        .click("details[data-key=kill] summary")
        .await;
    dashboard
        .browser
        .click("form[action$='/commands/kill'] button")
        .await;
    dashboard.browser.until_text("killed after ").await;
    dashboard
        .browser
        .run("document.querySelector('select[name=zone]').value = 'Asia/Tokyo'")
        .await;
    dashboard.browser.click("form[action='/zone'] button").await;
    dashboard
        .browser
        .until(
            "times of Tokyo",
            "document.querySelector('time').title.endsWith('JST')",
        )
        .await;
    dashboard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: cargo xtask browser"]
async fn a_reader_is_offered_no_action_and_an_operator_no_page_of_admins() {
    let mut dashboard = Dashboard::open(Role::Read).await;
    dashboard.fill().await;
    for (_, path) in PAGES
        .into_iter()
        .filter(|(name, _)| !matches!(*name, "doctor" | "tokens"))
    {
        dashboard.go(path).await;
        let forms = dashboard
            .browser
            .value("document.querySelectorAll('main form[method=post]').length")
            .await;
        assert_eq!(forms, 0, "{path}");
        let links = dashboard
            .browser
            .value("[...document.querySelectorAll('nav a')].map((a) => a.textContent).join()")
            .await;
        assert_eq!(
            links,
            "windlass,Overview,Tasks,Failures,People,Nodes,Schedules,Limits"
        );
    }
    dashboard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: cargo xtask browser"]
async fn hostile_texts_run_nothing_and_break_no_layout() {
    let dashboard = Dashboard::open(Role::Admin).await;
    let text = "<img src=x onerror=\"window.broken = true\">\u{202e}abc\u{1b}[31m".to_owned()
        + &"W".repeat(20_000);
    let id = "\"><script>window.broken=true<∕script>".to_owned() + &"i".repeat(200);
    let task = NewTask::new("k".repeat(200))
        .id(id.clone())
        .label("x".repeat(60), "y".repeat(120));
    dashboard
        .client
        .submit(task.props(&json!({ "text": text })))
        .await
        .unwrap();
    for width in [1100, 390] {
        dashboard.browser.resize(width, 780).await;
        for path in ["/", "/tasks", "/search?q=%22"] {
            dashboard.go(path).await;
            let wide = dashboard
                .browser
                .value("document.documentElement.scrollWidth")
                .await;
            assert!(
                wide.as_u64().unwrap() <= u64::from(width),
                "{path} is {wide} wide at {width}"
            );
        }
        dashboard.go("/tasks").await;
        dashboard.browser.click("a.id").await;
        dashboard
            .browser
            .until(
                "the page of the task",
                "document.getElementById('head') !== null",
            )
            .await;
        let shown = dashboard
            .browser
            .value("document.getElementById('head').dataset.task")
            .await;
        assert_eq!(shown, Value::from(id.clone()));
        let wide = dashboard
            .browser
            .value("document.documentElement.scrollWidth")
            .await;
        assert!(
            wide.as_u64().unwrap() <= u64::from(width),
            "the task is {wide} wide at {width}"
        );
        assert_eq!(
            dashboard.browser.value("window.broken ?? false").await,
            false
        );
    }
    dashboard.close().await;
}
