//! Each action on a schedule, its proof on the page, and what the store has after it.

use jiff::{Timestamp, ToSpan};
use windlass::{
    Client, NewTask,
    schedule::{Schedule, ScheduleRecord},
    store::{Filter, Page},
};
use windlass_server::Role;

use crate::{
    dashboard::Dashboard,
    pages::broken_rules,
    webdriver::{ENTER, TAB},
};

const PROOF: &str = "document.getElementById('proof')?.innerText";
/// The links of the proof.
const RUNS: &str = "[...document.querySelectorAll('#proof a')].map((a) => a.innerText).join()";

/// Opens a dashboard with a node and the schedule `nightly`, whose runs no node handles.
async fn dashboard(role: Role) -> Dashboard {
    let mut dashboard = Dashboard::open(role).await;
    dashboard.start_node().await;
    let nightly = Schedule::new(NewTask::new("report"))
        .cron("30 2 * * *")
        .zone("UTC")
        .start("2020-01-01T00:00:00Z".parse().unwrap());
    let schedules = dashboard.client.schedules();
    schedules.create("nightly", nightly).await.unwrap();
    dashboard.until_state("nightly", "sleeping").await;
    dashboard
        .browser
        .until(
            "the script",
            "document.documentElement.dataset.live === 'on'",
        )
        .await;
    dashboard
}

async fn nightly(client: &Client) -> ScheduleRecord {
    client.schedules().get("nightly").await.unwrap()
}

/// Returns the ids of the runs in the store.
async fn runs(client: &Client) -> Vec<String> {
    let filter = Filter::new().kind("report".parse().unwrap());
    let records = client.list(&filter, Page::new(100)).await.unwrap();
    let ids = records.iter().map(|record| record.task.id.to_string());
    ids.collect()
}

/// Returns the nominal time of the first row of the next times.
async fn first_time(dashboard: &Dashboard) -> Timestamp {
    let row = "document.querySelector('#next tbody tr td:last-child time').dateTime";
    let time = dashboard.browser.value(row).await;
    time.as_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: cargo xtask browser"]
async fn a_schedule_is_triggered_skipped_paused_and_resumed() {
    let dashboard = dashboard(Role::Operate).await;
    dashboard.go("/schedules").await;
    dashboard
        .browser
        .until_text("every day at 02:30 (UTC)")
        .await;
    dashboard.browser.click("tbody a.id").await;
    dashboard.browser
        .until(
            "the five next times",
            "location.pathname === '/schedules/nightly' && document.querySelectorAll('#next tbody tr').length === 5",
        )
        .await;

    dashboard
        .browser
        .click("form[action$='/trigger'] button")
        .await;
    dashboard
        .browser
        .until(
            "the proof of a run",
            &format!("{PROOF}?.startsWith('triggered: 1 run')"),
        )
        .await;
    let submitted = runs(&dashboard.client).await;
    assert_eq!(submitted.len(), 1, "{submitted:?}");
    assert_eq!(dashboard.browser.value(RUNS).await, submitted[0].as_str());
    dashboard.browser.click("#proof a").await;
    dashboard
        .browser
        .until(
            "the page of the run",
            "document.getElementById('head')?.dataset.task.startsWith('nightly@')",
        )
        .await;

    dashboard.go("/schedules/nightly").await;
    let skipped = first_time(&dashboard).await;
    assert_eq!(
        nightly(&dashboard.client).await.next.unwrap().nominal,
        skipped
    );
    dashboard
        .browser
        .click("form[action$='/skip'] button")
        .await;
    dashboard
        .browser
        .until(
            "the proof of a skip",
            &format!("{PROOF} === 'skips {skipped}'"),
        )
        .await;
    dashboard.browser.until_text("To be skipped: ").await;
    assert_eq!(first_time(&dashboard).await, skipped + 24.hours());
    let record = nightly(&dashboard.client).await;
    assert_eq!(record.skipped, [skipped]);
    assert_eq!(record.next.unwrap().nominal, skipped + 24.hours());

    dashboard
        .browser
        .fill("form[action$='/pause'] input", "the disk is replaced")
        .await;
    dashboard
        .browser
        .click("form[action$='/pause'] button")
        .await;
    dashboard
        .browser
        .until("the proof of a pause", &format!("{PROOF} === 'pause sent'"))
        .await;
    dashboard
        .browser
        .until_text("Paused: the disk is replaced")
        .await;
    dashboard.until_state("nightly", "paused").await;
    let offered = "[...document.querySelectorAll('#actions > form')].map((form) => form.action.split('/').pop()).join()";
    assert_eq!(dashboard.browser.value(offered).await, "trigger,resume");
    assert!(nightly(&dashboard.client).await.next.is_none());

    dashboard
        .browser
        .click("form[action$='/resume'] button")
        .await;
    dashboard
        .browser
        .until(
            "the proof of a resume",
            &format!("{PROOF} === 'resume sent'"),
        )
        .await;
    dashboard.until_state("nightly", "sleeping").await;
    dashboard
        .browser
        .until(
            "the actions of a live schedule",
            &format!("{offered} === 'trigger,pause,skip'"),
        )
        .await;
    let record = nightly(&dashboard.client).await;
    assert_eq!(record.next.unwrap().nominal, skipped + 24.hours());
    assert_eq!(runs(&dashboard.client).await, submitted, "no other run");
    dashboard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: cargo xtask browser"]
async fn the_keyboard_alone_backfills_after_a_dry_run() {
    let dashboard = dashboard(Role::Operate).await;
    let today = Timestamp::now().to_string()[..10].to_owned() + "T00:00:00Z";
    let today: Timestamp = today.parse().unwrap();
    let (from, to) = (today - 72.hours(), today - 24.hours());
    let times = [0, 24].map(|hours| from + (hours.hours().minutes(150)));
    let missed = times.map(|time| format!("nightly@{time}"));

    dashboard.go("/schedules/nightly").await;
    dashboard
        .browser
        .run("document.querySelector('details[data-key=backfill] summary').focus()")
        .await;
    let range = format!("{ENTER}{TAB}{from}{TAB}{to}{ENTER}");
    dashboard.browser.press(&range).await;
    dashboard.browser.until_text("Backfill: 2 runs").await;
    for run in &missed {
        dashboard.browser.until_text(run).await;
    }
    assert!(
        runs(&dashboard.client).await.is_empty(),
        "a dry run submits none"
    );
    let broken = broken_rules(&dashboard).await;
    assert!(broken.is_empty(), "{broken:#?}");

    dashboard
        .browser
        .run("document.querySelector('#preview button').focus()")
        .await;
    dashboard.browser.press(ENTER).await;
    dashboard
        .browser
        .until(
            "the proof of a backfill",
            &format!("{PROOF}?.startsWith('backfilled: 2 runs')"),
        )
        .await;
    assert_eq!(runs(&dashboard.client).await, missed);
    assert_eq!(dashboard.browser.value(RUNS).await, missed.join(","));

    // Each time of the range has its run now.
    dashboard
        .go(&format!("/schedules/nightly?from={from}&to={to}&all=true"))
        .await;
    dashboard
        .browser
        .until_text("No time in this range lacks a run.")
        .await;
    dashboard.go("/schedules/nightly?from=someday").await;
    dashboard
        .browser
        .until_text("from: 'someday' is not ")
        .await;
    // The browser logs the page of the refusal.
    dashboard.browser.complaints().await;
    dashboard.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: cargo xtask browser"]
async fn a_reader_of_a_schedule_sees_its_times_and_is_offered_no_action() {
    let dashboard = dashboard(Role::Read).await;
    dashboard.go("/schedules/nightly?from=3d%20ago").await;
    dashboard
        .browser
        .until(
            "the five next times",
            "document.querySelectorAll('#next tbody tr').length === 5",
        )
        .await;
    let forms = "document.querySelectorAll('main form, main button, #preview').length";
    assert_eq!(dashboard.browser.value(forms).await, 0);
    dashboard.close().await;
}
