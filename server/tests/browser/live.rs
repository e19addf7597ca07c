//! Pages that follow what happens.

use std::time::Duration;

use windlass::{Command, NewTask};
use windlass_server::Role;

use crate::desk::Desk;

const LIVE: &str = "document.documentElement.dataset.live === 'on'";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: cargo xtask browser"]
async fn a_change_is_shown_and_focus_selection_and_typing_stay() {
    let mut desk = Desk::open(Role::Operate).await;
    desk.fill().await;
    desk.go("/tasks/sync-0").await;
    desk.browser.until("the script", LIVE).await;
    desk.browser.until_text("fetched page").await;
    desk.browser.click("details[data-key=signal] summary").await;
    desk.browser
        .fill("textarea[name=payload]", "half a senten")
        .await;
    desk.browser
        .run("window.kept = document.querySelector('h1'); const range = document.createRange(); range.selectNodeContents(window.kept); \
              getSelection().removeAllRanges(); getSelection().addRange(range); scrollTo(0, 120);")
        .await;
    desk.client.command("sync-0", Command::Pause).await.unwrap();
    desk.browser
        .until(
            "the state of the heading",
            "document.querySelector('h1').innerText.includes('paused')",
        )
        .await;
    let kept = desk
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
    desk.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: cargo xtask browser"]
async fn paused_updates_wait_and_resumed_ones_come() {
    let desk = Desk::open(Role::Operate).await;
    desk.go("/tasks?kind=mail").await;
    desk.browser.until("the script", LIVE).await;
    desk.client
        .submit(NewTask::new("mail").id("first"))
        .await
        .unwrap();
    desk.browser.until_text("first").await;
    desk.browser.click("#pause").await;
    desk.browser.until_text("updates are paused").await;
    desk.client
        .submit(NewTask::new("mail").id("second"))
        .await
        .unwrap();
    // Longer than a change takes to be shown.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!desk.browser.text().await.contains("second"));
    desk.browser.click("#pause").await;
    desk.browser.until_text("second").await;
    desk.browser.until("live again", LIVE).await;
    desk.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: cargo xtask browser"]
async fn a_page_says_that_its_connection_is_cut_and_heals() {
    let mut desk = Desk::open(Role::Operate).await;
    desk.go("/tasks").await;
    desk.browser.until("the script", LIVE).await;
    desk.cut().await;
    desk.browser.until_text("no connection to the server").await;
    desk.client
        .submit(NewTask::new("mail").id("meanwhile"))
        .await
        .unwrap();
    desk.join().await;
    desk.browser.until("live again", LIVE).await;
    desk.browser.until_text("meanwhile").await;
    desk.client
        .submit(NewTask::new("mail").id("afterwards"))
        .await
        .unwrap();
    desk.browser.until_text("afterwards").await;
    // What failed while there was no server is logged by the browser.
    desk.browser.complaints().await;
    desk.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: cargo xtask browser"]
async fn two_tabs_share_one_stream_and_the_second_takes_it_over() {
    let desk = Desk::open(Role::Operate).await;
    desk.go("/tasks").await;
    desk.browser.until("the script", LIVE).await;
    let first = desk.browser.tab().await;
    let second = desk.browser.new_tab().await;
    desk.browser.switch_to(&second).await;
    desk.go("/tasks?kind=mail").await;
    desk.browser.until("the script", LIVE).await;
    desk.browser.run("window.locks = null; navigator.locks.query().then((all) => { window.locks = [all.held.length, all.pending.length]; })").await;
    desk.browser
        .until("the locks", "window.locks !== null")
        .await;
    assert_eq!(
        desk.browser.value("window.locks").await,
        serde_json::json!([1, 1]),
        "one tab has the stream, one waits for it"
    );
    desk.client
        .submit(NewTask::new("mail").id("for-both"))
        .await
        .unwrap();
    desk.browser.until_text("for-both").await;
    desk.browser.switch_to(&first).await;
    desk.browser.until_text("for-both").await;
    desk.browser.close_tab().await;
    desk.browser.switch_to(&second).await;
    desk.client
        .submit(NewTask::new("mail").id("for-the-second"))
        .await
        .unwrap();
    desk.browser.until_text("for-the-second").await;
    desk.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: cargo xtask browser"]
async fn many_changes_are_few_reads_of_the_page() {
    let desk = Desk::open(Role::Operate).await;
    desk.go("/tasks").await;
    desk.browser.until("the script", LIVE).await;
    let reads = "performance.getEntriesByType('resource').filter((one) => one.initiatorType === 'fetch').length";
    let before = desk.browser.value(reads).await.as_u64().unwrap();
    let begun = tokio::time::Instant::now();
    let mut submitted = 0;
    while begun.elapsed() < Duration::from_secs(4) {
        let task = NewTask::new("mail").id(format!("burst-{submitted}"));
        desk.client.submit(task).await.unwrap();
        submitted += 1;
    }
    desk.browser
        .until_text(&format!("burst-{}", submitted - 1))
        .await;
    let after = desk.browser.value(reads).await.as_u64().unwrap();
    let most = 2 * begun.elapsed().as_secs() + 3;
    assert!(submitted > 100, "{submitted} changes are not many");
    assert!(
        (2..=most).contains(&(after - before)),
        "{} reads for {submitted} changes",
        after - before
    );
    // A search costs more than a list: only a person repeats it.
    desk.go("/search?q=burst").await;
    desk.browser.until("the script", LIVE).await;
    desk.client
        .submit(NewTask::new("mail").id("burst-late"))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(desk.browser.value(reads).await, 0);
    desk.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: cargo xtask browser"]
async fn the_overview_follows_many_changes_with_few_reads_and_shows_the_last() {
    let desk = Desk::open(Role::Operate).await;
    desk.client.submit(NewTask::new("mail")).await.unwrap();
    desk.go("/").await;
    desk.browser.until("the script", LIVE).await;
    let reads = "performance.getEntriesByType('resource').filter((one) => one.initiatorType === 'fetch').length";
    let before = desk.browser.value(reads).await.as_u64().unwrap();
    let begun = tokio::time::Instant::now();
    let mut tasks = 1;
    while begun.elapsed() < Duration::from_secs(6) {
        desk.client.submit(NewTask::new("mail")).await.unwrap();
        tasks += 1;
    }
    let after = desk.browser.value(reads).await.as_u64().unwrap();
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
        desk.browser
            .until(&format!("the last number of #{part}"), &number)
            .await;
    }
    desk.close().await;
}
