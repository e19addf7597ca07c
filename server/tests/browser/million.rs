//! The pages of a store with 1,000,000 tasks: each opens, shows its numbers, and its links lead to the tasks.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_server::Role;

use crate::{dashboard::Dashboard, many, webdriver::ENTER};

/// How long a page may take until it is loaded, from a server without optimisation. A page that compares every task takes longer.
const OPEN: Duration = Duration::from_secs(10);

/// The ids of the rows.
const IDS: &str = "[...document.querySelectorAll('#tasks tbody a.id')].map((a) => a.innerText)";
/// The states of the rows, each once.
const STATES: &str = "[...new Set([...document.querySelectorAll('#tasks .state')].map((one) => one.innerText.replace(/^\\W+/, '')))].join()";

/// Opens a page, and fails when it takes too long.
async fn open(dashboard: &Dashboard, path: &str) {
    let begun = Instant::now();
    dashboard.go(path).await;
    let took = begun.elapsed();
    assert!(took < OPEN, "{path} took {took:?}, more than {OPEN:?}");
}

/// Clicks a link, waits until the list that it leads to has this many rows, and returns their ids.
async fn follow(dashboard: &Dashboard, link: &str, rows: usize) -> Vec<Value> {
    let begun = Instant::now();
    dashboard.browser.run("window.before = true").await;
    dashboard.browser.click(link).await;
    dashboard
        .browser
        .until(
            "the list of a link",
            &format!("window.before === undefined && {IDS}.length === {rows}"),
        )
        .await;
    let took = begun.elapsed();
    assert!(took < OPEN, "{link} took {took:?}, more than {OPEN:?}");
    ids(dashboard).await
}

async fn ids(dashboard: &Dashboard) -> Vec<Value> {
    dashboard
        .browser
        .value(IDS)
        .await
        .as_array()
        .unwrap()
        .clone()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: cargo xtask browser"]
async fn each_page_of_a_million_tasks_opens_with_its_numbers_and_links() {
    let dashboard = Dashboard::at(many::million().await, Role::Operate).await;
    overview(&dashboard).await;
    tasks(&dashboard).await;
    searches(&dashboard).await;
    failures(&dashboard).await;
    people(&dashboard).await;
    dashboard.close().await;
}

async fn overview(dashboard: &Dashboard) {
    open(dashboard, "/").await;
    let numbers = "[...document.querySelectorAll('#counts a.number')].map((a) => Number(a.innerText.replace(/\\D/g, '')))";
    let numbers = dashboard.browser.value(numbers).await;
    assert_eq!(numbers, json!([900_000, 10_000, 40_000, 50_000]));
    dashboard
        .browser
        .until_text("no live node handles its kind")
        .await;
    follow(
        dashboard,
        "#counts a[href*='kind=archive&state=sleeping']",
        25,
    )
    .await;
    assert_eq!(dashboard.browser.value(STATES).await, "sleeping");
    open(dashboard, "/").await;
    follow(dashboard, "#waiting a[href*='kind=report']", 25).await;
    assert_eq!(dashboard.browser.value(STATES).await, "queued");
}

async fn tasks(dashboard: &Dashboard) {
    open(dashboard, "/tasks").await;
    let newest = ids(dashboard).await;
    assert_eq!((newest.len(), &newest[0]), (25, &json!("t-0999999")));
    let later = follow(dashboard, "nav.pages a[rel=next]", 25).await;
    assert_eq!(later[0], "t-0999974");
    assert_eq!(follow(dashboard, "nav.pages a[rel=prev]", 25).await, newest);

    open(dashboard, "/tasks?state=failed&label=team=t3").await;
    assert_eq!(ids(dashboard).await.len(), 25);
    dashboard.browser.click("#tasks a.id").await;
    dashboard.browser.until_text("connection refused").await;
    let task = "document.getElementById('head').dataset.task";
    let task = dashboard.browser.value(task).await;
    assert!(task.as_str().unwrap().ends_with('3'), "{task}");
    let timeline = "document.querySelectorAll('.timeline .claimed').length";
    assert_eq!(dashboard.browser.value(timeline).await, 1);
}

async fn searches(dashboard: &Dashboard) {
    open(dashboard, "/search?q=t-07").await;
    let found = ids(dashboard).await;
    assert_eq!((found.len(), &found[9]), (10, &json!("t-0799990")));
    let all = follow(dashboard, "main section a[href*='prefix=t-07']", 25).await;
    assert_eq!(all[..10], found);
    assert_eq!(all[24], "t-0799975");

    open(dashboard, "/search?q=no-task-has-this-text").await;
    dashboard
        .browser
        .until_text("Search: no-task-has-this-text")
        .await;
    dashboard
        .browser
        .fill(".search input", &format!("t-0500003{ENTER}"))
        .await;
    dashboard
        .browser
        .until(
            "the page of the task",
            "location.pathname === '/tasks/t-0500003' && document.getElementById('head') !== null",
        )
        .await;
}

async fn failures(dashboard: &Dashboard) {
    open(dashboard, "/failures").await;
    dashboard
        .browser
        .until_text("40,000 failed tasks in 1 group.")
        .await;
    follow(dashboard, "main tbody a.number", 25).await;
    assert_eq!(dashboard.browser.value(STATES).await, "failed");
}

async fn people(dashboard: &Dashboard) {
    open(dashboard, "/people").await;
    let asking = "[...document.querySelectorAll('.asked')].map((one) => one.dataset.key)";
    let first = dashboard.browser.value(asking).await;
    assert_eq!(first[0], "t-0000040");
    assert_eq!(first.as_array().unwrap().len(), 20);
    dashboard.browser.click("nav.pages a").await;
    dashboard
        .browser
        .until(
            "the next tasks that ask",
            &format!("{asking}.length === 20 && {asking}[0] === 't-0002040'"),
        )
        .await;
}
