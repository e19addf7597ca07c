//! The pages of a store with 1,000,000 tasks: each opens, shows its numbers, and its links lead to the tasks.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_server::Role;

use crate::{desk::Desk, many, webdriver::ENTER};

/// How long a page may take until it is loaded, from a server without optimisation. A page that compares every task takes longer.
const OPEN: Duration = Duration::from_secs(10);

/// The ids of the rows.
const IDS: &str = "[...document.querySelectorAll('#tasks tbody a.id')].map((a) => a.innerText)";
/// The states of the rows, each once.
const STATES: &str = "[...new Set([...document.querySelectorAll('#tasks .state')].map((one) => one.innerText.replace(/^\\W+/, '')))].join()";

/// Opens a page, and fails when it takes too long.
async fn open(desk: &Desk, path: &str) {
    let begun = Instant::now();
    desk.go(path).await;
    let took = begun.elapsed();
    assert!(took < OPEN, "{path} took {took:?}, more than {OPEN:?}");
}

/// Clicks a link, waits until the list that it leads to has this many rows, and returns their ids.
async fn follow(desk: &Desk, link: &str, rows: usize) -> Vec<Value> {
    let begun = Instant::now();
    desk.browser.run("window.before = true").await;
    desk.browser.click(link).await;
    desk.browser
        .until(
            "the list of a link",
            &format!("window.before === undefined && {IDS}.length === {rows}"),
        )
        .await;
    let took = begun.elapsed();
    assert!(took < OPEN, "{link} took {took:?}, more than {OPEN:?}");
    ids(desk).await
}

async fn ids(desk: &Desk) -> Vec<Value> {
    desk.browser.value(IDS).await.as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: cargo xtask browser"]
async fn each_page_of_a_million_tasks_opens_with_its_numbers_and_links() {
    let desk = Desk::at(many::million().await, Role::Operate).await;
    overview(&desk).await;
    tasks(&desk).await;
    searches(&desk).await;
    failures(&desk).await;
    people(&desk).await;
    desk.close().await;
}

async fn overview(desk: &Desk) {
    open(desk, "/").await;
    let numbers = "[...document.querySelectorAll('#counts a.number')].map((a) => Number(a.innerText.replace(/\\D/g, '')))";
    let numbers = desk.browser.value(numbers).await;
    assert_eq!(numbers, json!([900_000, 10_000, 40_000, 50_000]));
    desk.browser
        .until_text("no live node handles its kind")
        .await;
    follow(desk, "#counts a[href*='kind=archive&state=sleeping']", 25).await;
    assert_eq!(desk.browser.value(STATES).await, "sleeping");
    open(desk, "/").await;
    follow(desk, "#waiting a[href*='kind=report']", 25).await;
    assert_eq!(desk.browser.value(STATES).await, "queued");
}

async fn tasks(desk: &Desk) {
    open(desk, "/tasks").await;
    let newest = ids(desk).await;
    assert_eq!((newest.len(), &newest[0]), (25, &json!("t-0999999")));
    let later = follow(desk, "nav.pages a[rel=next]", 25).await;
    assert_eq!(later[0], "t-0999974");
    assert_eq!(follow(desk, "nav.pages a[rel=prev]", 25).await, newest);

    open(desk, "/tasks?state=failed&label=team=t3").await;
    assert_eq!(ids(desk).await.len(), 25);
    desk.browser.click("#tasks a.id").await;
    desk.browser.until_text("connection refused").await;
    let task = "document.getElementById('head').dataset.task";
    let task = desk.browser.value(task).await;
    assert!(task.as_str().unwrap().ends_with('3'), "{task}");
    let timeline = "document.querySelectorAll('.timeline .claimed').length";
    assert_eq!(desk.browser.value(timeline).await, 1);
}

async fn searches(desk: &Desk) {
    open(desk, "/search?q=t-07").await;
    let found = ids(desk).await;
    assert_eq!((found.len(), &found[9]), (10, &json!("t-0799990")));
    let all = follow(desk, "main section a[href*='prefix=t-07']", 25).await;
    assert_eq!(all[..10], found);
    assert_eq!(all[24], "t-0799975");

    open(desk, "/search?q=no-task-has-this-text").await;
    desk.browser
        .until_text("Search: no-task-has-this-text")
        .await;
    desk.browser
        .fill(".search input", &format!("t-0500003{ENTER}"))
        .await;
    desk.browser
        .until(
            "the page of the task",
            "location.pathname === '/tasks/t-0500003' && document.getElementById('head') !== null",
        )
        .await;
}

async fn failures(desk: &Desk) {
    open(desk, "/failures").await;
    desk.browser
        .until_text("40,000 failed tasks in 1 group.")
        .await;
    follow(desk, "main tbody a.number", 25).await;
    assert_eq!(desk.browser.value(STATES).await, "failed");
}

async fn people(desk: &Desk) {
    open(desk, "/people").await;
    let asking = "[...document.querySelectorAll('.asked')].map((one) => one.dataset.key)";
    let first = desk.browser.value(asking).await;
    assert_eq!(first[0], "t-0000040");
    assert_eq!(first.as_array().unwrap().len(), 20);
    desk.browser.click("nav.pages a").await;
    desk.browser
        .until(
            "the next tasks that ask",
            &format!("{asking}.length === 20 && {asking}[0] === 't-0002040'"),
        )
        .await;
}
