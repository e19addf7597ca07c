//! Each action, and its proof.

use windlass::NewTask;
use windlass_server::Role;

use crate::dashboard::Dashboard;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: cargo xtask browser"]
async fn each_action_on_a_task_ends_with_its_proof() {
    let mut dashboard = Dashboard::open(Role::Operate).await;
    dashboard.fill().await;
    dashboard.go("/tasks/sync-0").await;
    dashboard
        .browser
        .click("form[action$='/commands/pause'] button")
        .await;
    dashboard.browser.until("the proof", "/^pause: stopped after \\d+ ms \\(.*delivered after \\d+ ms\\), fence \\d+/.test(document.getElementById('proof')?.innerText)").await;
    dashboard
        .browser
        .click("form[action$='/commands/run'] button")
        .await;
    dashboard
        .browser
        .until(
            "the proof of a resume",
            "document.getElementById('proof')?.innerText.includes('paused → runnable')",
        )
        .await;
    dashboard.browser.until_text("fetched page 1").await;
    dashboard
        .browser
        .click("details[data-key=signal] summary")
        .await;
    dashboard.browser.fill("input[name=name]", "approve").await;
    dashboard
        .browser
        .fill("textarea[name=payload]", "{\"by\":\"ann\"}")
        .await;
    dashboard
        .browser
        .click("form[action$='/signal'] button")
        .await;
    dashboard
        .browser
        .until(
            "the reply",
            "document.getElementById('proof')?.innerText.includes('\"approved\":true')",
        )
        .await;
    dashboard
        .browser
        .click("details[data-key=kill] summary")
        .await;
    dashboard.browser.until_text("Kills 1 task: sync-0.").await;
    dashboard
        .browser
        .click("form[action$='/commands/kill'] button")
        .await;
    dashboard
        .browser
        .until(
            "the proof of a kill",
            "/killed after \\d+ ms.*, fence/.test(document.getElementById('proof')?.innerText)",
        )
        .await;
    dashboard
        .browser
        .click("form[action$='/retry'] button")
        .await;
    dashboard.browser.until_text("incarnation 1").await;
    dashboard.go("/people").await;
    dashboard.browser.until_text("Deploy version 1.4?").await;
    dashboard
        .browser
        .choose("select[name='p.approved']", "yes")
        .await;
    dashboard
        .browser
        .fill("input[name='p.reason']", "quiet hour")
        .await;
    dashboard
        .browser
        .click("form[action$='/answer'] button")
        .await;
    dashboard.browser.until_text("Sent to deploy-1.4").await;
    dashboard.until_state("deploy-1.4", "completed").await;
    dashboard.go("/tasks/deploy-1.4").await;
    dashboard.browser.until_text("\"share\": 5").await;
    dashboard.browser.until_text("quiet hour").await;
    dashboard.go("/tasks/mail-3").await;
    dashboard.browser.until_text("connection refused").await;
    dashboard
        .browser
        .click("details[data-key=edited] summary")
        .await;
    dashboard
        .browser
        .fill("textarea[name=props]", "{\"to\":\"bob@example.com\"}")
        .await;
    dashboard
        .browser
        .click("details[data-key=edited] button")
        .await;
    dashboard.browser.until_text("bob@example.com").await;
    dashboard.go("/tasks/poll-prices").await;
    dashboard
        .browser
        .until(
            "the repeated runs as one line",
            "document.querySelectorAll('.repeated').length >= 1",
        )
        .await;
    dashboard.browser.until("the button", "document.querySelector(\"form[action$='/commands/run'] button\")?.innerText === 'Run now'").await;
    dashboard
        .browser
        .click("form[action$='/commands/run'] button")
        .await;
    dashboard
        .browser
        .until(
            "the proof of a run",
            "document.getElementById('proof')?.innerText.startsWith('run: applied after')",
        )
        .await;
    dashboard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: cargo xtask browser"]
async fn a_node_is_frozen_and_drained() {
    let mut dashboard = Dashboard::open(Role::Admin).await;
    dashboard.fill().await;
    dashboard.go("/nodes").await;
    dashboard
        .browser
        .click("form[action$='/freeze'] button")
        .await;
    dashboard.browser.until_text("freeze: answered").await;
    dashboard
        .client
        .submit(NewTask::new("sync").id("late"))
        .await
        .unwrap();
    dashboard.go("/tasks/late").await;
    dashboard
        .browser
        .until_text("frozen or draining: worker-1")
        .await;
    dashboard.go("/nodes").await;
    dashboard
        .browser
        .click("form[action$='/unfreeze'] button")
        .await;
    dashboard.browser.until_text("unfreeze: answered").await;
    dashboard.browser.click("details summary.danger").await;
    dashboard
        .browser
        .click("form[action$='/drain'] button")
        .await;
    dashboard.browser.until_text("drain: answered").await;
    dashboard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: cargo xtask browser"]
async fn the_cause_of_a_stuck_task_is_three_steps_away() {
    let mut dashboard = Dashboard::open(Role::Operate).await;
    dashboard.fill().await;
    dashboard.go("/").await;
    dashboard
        .browser
        .until_text("no live node handles its kind")
        .await;
    dashboard.browser.click("#waiting a.number").await;
    dashboard.browser.until("its tasks", "document.querySelectorAll('tbody tr').length >= 1 && location.search.includes('waits=')").await;
    dashboard.browser.click("tbody a.id").await;
    dashboard
        .browser
        .until(
            "why it waits",
            "document.getElementById('why')?.innerText.startsWith('It waits: ')",
        )
        .await;
    dashboard.close().await;
}
