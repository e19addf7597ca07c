//! Pages that follow what happens.

use std::time::Duration;

use windlass::{Command, NewTask};
use windlass_server::Role;

use crate::dashboard::Dashboard;

const LIVE: &str = "document.documentElement.dataset.live === 'on'";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: cargo xtask browser"]
async fn a_change_is_shown_and_focus_selection_and_typing_stay() {
    let mut dashboard = Dashboard::open(Role::Operate).await;
    dashboard.fill().await;
    dashboard.go("/tasks/sync-0").await;
    dashboard.browser.until("the script", LIVE).await;
    dashboard.browser.until_text("fetched page").await;
    dashboard
        .browser
        .click("details[data-key=signal] summary")
        .await;
    dashboard
        .browser
        .fill("textarea[name=payload]", "half a senten")
        .await;
    dashboard.browser
        .run("window.kept = document.querySelector('h1'); const range = document.createRange(); range.selectNodeContents(window.kept); \
              getSelection().removeAllRanges(); getSelection().addRange(range); scrollTo(0, 120);")
        .await;
    dashboard
        .client
        .command("sync-0", Command::Pause)
        .await
        .unwrap();
    dashboard
        .browser
        .until(
            "the state of the heading",
            "document.querySelector('h1').innerText.includes('paused')",
        )
        .await;
    let kept = dashboard
        .browser
        .value(
            "[document.querySelector('h1') === window.kept, getSelection().toString().includes('sync-0'), \
             document.querySelector('textarea[name=payload]').value, document.querySelector('details[data-key=signal]').open, scrollY]",
        )
        .await;
    assert_eq!(
        kept,
        serde_json::json!([true, true, "half a senten", true, 120])
    );
    dashboard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: cargo xtask browser"]
async fn paused_updates_wait_and_resumed_ones_come() {
    let dashboard = Dashboard::open(Role::Operate).await;
    dashboard.go("/tasks?kind=mail").await;
    dashboard.browser.until("the script", LIVE).await;
    dashboard
        .client
        .submit(NewTask::new("mail").id("first"))
        .await
        .unwrap();
    dashboard.browser.until_text("first").await;
    dashboard.browser.click("#pause").await;
    dashboard.browser.until_text("updates are paused").await;
    dashboard
        .client
        .submit(NewTask::new("mail").id("second"))
        .await
        .unwrap();
    // Longer than a change takes to be shown.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!dashboard.browser.text().await.contains("second"));
    dashboard.browser.click("#pause").await;
    dashboard.browser.until_text("second").await;
    dashboard.browser.until("live again", LIVE).await;
    dashboard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: cargo xtask browser"]
async fn a_page_says_that_its_connection_is_cut_and_heals() {
    let mut dashboard = Dashboard::open(Role::Operate).await;
    dashboard.go("/tasks").await;
    dashboard.browser.until("the script", LIVE).await;
    dashboard.cut().await;
    dashboard
        .browser
        .until_text("no connection to the server")
        .await;
    dashboard
        .client
        .submit(NewTask::new("mail").id("meanwhile"))
        .await
        .unwrap();
    dashboard.join().await;
    dashboard.browser.until("live again", LIVE).await;
    dashboard.browser.until_text("meanwhile").await;
    dashboard
        .client
        .submit(NewTask::new("mail").id("afterwards"))
        .await
        .unwrap();
    dashboard.browser.until_text("afterwards").await;
    // What failed while there was no server is logged by the browser.
    dashboard.browser.complaints().await;
    dashboard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: cargo xtask browser"]
async fn two_tabs_share_one_stream_and_the_second_takes_it_over() {
    let dashboard = Dashboard::open(Role::Operate).await;
    dashboard.go("/tasks").await;
    dashboard.browser.until("the script", LIVE).await;
    let first = dashboard.browser.tab().await;
    let second = dashboard.browser.new_tab().await;
    dashboard.browser.switch_to(&second).await;
    dashboard.go("/tasks?kind=mail").await;
    dashboard.browser.until("the script", LIVE).await;
    dashboard.browser.run("window.locks = null; navigator.locks.query().then((all) => { window.locks = [all.held.length, all.pending.length]; })").await;
    dashboard
        .browser
        .until("the locks", "window.locks !== null")
        .await;
    assert_eq!(
        dashboard.browser.value("window.locks").await,
        serde_json::json!([1, 1]),
        "one tab has the stream, one waits for it"
    );
    dashboard
        .client
        .submit(NewTask::new("mail").id("for-both"))
        .await
        .unwrap();
    dashboard.browser.until_text("for-both").await;
    dashboard.browser.switch_to(&first).await;
    dashboard.browser.until_text("for-both").await;
    dashboard.browser.close_tab().await;
    dashboard.browser.switch_to(&second).await;
    dashboard
        .client
        .submit(NewTask::new("mail").id("for-the-second"))
        .await
        .unwrap();
    dashboard.browser.until_text("for-the-second").await;
    dashboard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: cargo xtask browser"]
async fn many_changes_are_few_reads_of_the_page() {
    let dashboard = Dashboard::open(Role::Operate).await;
    dashboard.go("/tasks").await;
    dashboard.browser.until("the script", LIVE).await;
    let reads = "performance.getEntriesByType('resource').filter((one) => one.initiatorType === 'fetch').length";
    let before = dashboard.browser.value(reads).await.as_u64().unwrap();
    let begun = tokio::time::Instant::now();
    let mut submitted = 0;
    while begun.elapsed() < Duration::from_secs(4) {
        let task = NewTask::new("mail").id(format!("burst-{submitted}"));
        dashboard.client.submit(task).await.unwrap();
        submitted += 1;
    }
    dashboard
        .browser
        .until_text(&format!("burst-{}", submitted - 1))
        .await;
    let after = dashboard.browser.value(reads).await.as_u64().unwrap();
    let most = 2 * begun.elapsed().as_secs() + 3;
    assert!(submitted > 100, "{submitted} changes are not many");
    assert!(
        (2..=most).contains(&(after - before)),
        "{} reads for {submitted} changes",
        after - before
    );
    // A search costs more than a list: only a person repeats it.
    dashboard.go("/search?q=burst").await;
    dashboard.browser.until("the script", LIVE).await;
    dashboard
        .client
        .submit(NewTask::new("mail").id("burst-late"))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(dashboard.browser.value(reads).await, 0);
    dashboard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: cargo xtask browser"]
async fn the_overview_follows_many_changes_with_few_reads_and_shows_the_last() {
    let dashboard = Dashboard::open(Role::Operate).await;
    dashboard.client.submit(NewTask::new("mail")).await.unwrap();
    dashboard.go("/").await;
    dashboard.browser.until("the script", LIVE).await;
    let reads = "performance.getEntriesByType('resource').filter((one) => one.initiatorType === 'fetch').length";
    let before = dashboard.browser.value(reads).await.as_u64().unwrap();
    let begun = tokio::time::Instant::now();
    let mut tasks = 1;
    while begun.elapsed() < Duration::from_secs(6) {
        dashboard.client.submit(NewTask::new("mail")).await.unwrap();
        tasks += 1;
    }
    let after = dashboard.browser.value(reads).await.as_u64().unwrap();
    let most = 2 * begun.elapsed().as_secs() + 3;
    assert!(tasks > 100, "{tasks} changes are not many");
    assert!(
        (2..=most).contains(&(after - before)),
        "{} reads for {tasks} changes",
        after - before
    );
    for part in ["counts", "waiting"] {
        let number = format!(
            "Number(document.querySelector('#{part} a.number')?.innerText.replace(/\\D/g, '')) === {tasks}"
        );
        dashboard
            .browser
            .until(&format!("the last number of #{part}"), &number)
            .await;
    }
    dashboard.close().await;
}
