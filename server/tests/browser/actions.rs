//! Each action, and its proof.

use windlass::NewTask;
use windlass_server::Role;

use crate::desk::Desk;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: cargo xtask browser"]
async fn each_action_on_a_task_ends_with_its_proof() {
    let mut desk = Desk::open(Role::Operate).await;
    desk.fill().await;
    desk.go("/tasks/sync-0").await;
    desk.browser
        .click("form[action$='/commands/pause'] button")
        .await;
    desk.browser.until("the proof", "/^pause: stopped after \\d+ ms \\(.*delivered after \\d+ ms\\), fence \\d+/.test(document.getElementById('proof')?.innerText)").await;
    desk.browser
        .click("form[action$='/commands/run'] button")
        .await;
    desk.browser
        .until(
            "the proof of a resume",
            "document.getElementById('proof')?.innerText.includes('paused → runnable')",
        )
        .await;
    desk.browser.until_text("fetched page 1").await;
    desk.browser.click("details[data-key=signal] summary").await;
    desk.browser.fill("input[name=name]", "approve").await;
    desk.browser
        .fill("textarea[name=payload]", "{\"by\":\"ann\"}")
        .await;
    desk.browser.click("form[action$='/signal'] button").await;
    desk.browser
        .until(
            "the reply",
            "document.getElementById('proof')?.innerText.includes('\"approved\":true')",
        )
        .await;
    desk.browser.click("details[data-key=kill] summary").await;
    desk.browser.until_text("Kills 1 task: sync-0.").await;
    desk.browser
        .click("form[action$='/commands/kill'] button")
        .await;
    desk.browser
        .until(
            "the proof of a kill",
            "/killed after \\d+ ms.*, fence/.test(document.getElementById('proof')?.innerText)",
        )
        .await;
    desk.browser.click("form[action$='/retry'] button").await;
    desk.browser.until_text("incarnation 1").await;
    desk.go("/people").await;
    desk.browser.until_text("Deploy version 1.4?").await;
    desk.browser
        .choose("select[name='p.approved']", "yes")
        .await;
    desk.browser
        .fill("input[name='p.reason']", "quiet hour")
        .await;
    desk.browser.click("form[action$='/answer'] button").await;
    desk.browser.until_text("Sent to deploy-1.4").await;
    desk.until_state("deploy-1.4", "completed").await;
    desk.go("/tasks/deploy-1.4").await;
    desk.browser.until_text("\"share\": 5").await;
    desk.browser.until_text("quiet hour").await;
    desk.go("/tasks/mail-3").await;
    desk.browser.until_text("connection refused").await;
    desk.browser.click("details[data-key=edited] summary").await;
    desk.browser
        .fill("textarea[name=props]", "{\"to\":\"bob@example.com\"}")
        .await;
    desk.browser.click("details[data-key=edited] button").await;
    desk.browser.until_text("bob@example.com").await;
    desk.go("/tasks/poll-prices").await;
    desk.browser
        .until(
            "the repeated runs as one line",
            "document.querySelectorAll('.repeated').length >= 1",
        )
        .await;
    desk.browser.until("the button", "document.querySelector(\"form[action$='/commands/run'] button\")?.innerText === 'Run now'").await;
    desk.browser
        .click("form[action$='/commands/run'] button")
        .await;
    desk.browser
        .until(
            "the proof of a run",
            "document.getElementById('proof')?.innerText.startsWith('run: applied after')",
        )
        .await;
    desk.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: cargo xtask browser"]
async fn a_node_is_frozen_and_drained() {
    let mut desk = Desk::open(Role::Admin).await;
    desk.fill().await;
    desk.go("/nodes").await;
    desk.browser.click("form[action$='/freeze'] button").await;
    desk.browser.until_text("freeze: answered").await;
    desk.client
        .submit(NewTask::new("sync").id("late"))
        .await
        .unwrap();
    desk.go("/tasks/late").await;
    desk.browser
        .until_text("frozen or draining: worker-1")
        .await;
    desk.go("/nodes").await;
    desk.browser.click("form[action$='/unfreeze'] button").await;
    desk.browser.until_text("unfreeze: answered").await;
    desk.browser.click("details summary.danger").await;
    desk.browser.click("form[action$='/drain'] button").await;
    desk.browser.until_text("drain: answered").await;
    desk.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: cargo xtask browser"]
async fn the_cause_of_a_stuck_task_is_three_steps_away() {
    let mut desk = Desk::open(Role::Operate).await;
    desk.fill().await;
    desk.go("/").await;
    desk.browser
        .until_text("no live node handles its kind")
        .await;
    desk.browser.click("#waiting a.number").await;
    desk.browser.until("its tasks", "document.querySelectorAll('tbody tr').length >= 1 && location.search.includes('waits=')").await;
    desk.browser.click("tbody a.id").await;
    desk.browser
        .until(
            "why it waits",
            "document.getElementById('why')?.innerText.startsWith('It waits: ')",
        )
        .await;
    desk.close().await;
}
