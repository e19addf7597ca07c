//! How a page follows 1,000 changes a second: its updates, what it leaves out, and what stays.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior};
use windlass::{Client, NewTask};

use super::served::Served;
use crate::webdriver::Browser;

/// For how long a page is observed.
const TIME: Duration = Duration::from_secs(20);
/// The changes a second: this many batches of submits, each of so many tasks.
const BATCHES: u32 = 20;
const BATCH: usize = 50;

/// Counts, in each page from its start: the changes of the stream, the reads of the page, its updates, the rows it has ever shown, the
/// frames, and the tasks of the main thread that took longer than 50 ms.
const OBSERVE: &str = "
    window.seen = { changes: 0, reads: 0, updates: 0, rows: new Set(), long: [], frames: 0, gap: 0, since: performance.now() };
    const listen = EventSource.prototype.addEventListener;
    EventSource.prototype.addEventListener = function (name, heard) {
      listen.call(this, name, (event) => { if (name === 'change') seen.changes += 1; heard(event); });
    };
    new PerformanceObserver((list) => { seen.long.push(...list.getEntries().map((one) => one.duration)); }).observe({ type: 'longtask' });
    new PerformanceObserver((list) => { seen.reads += list.getEntries().filter((one) => one.initiatorType === 'fetch').length; }).observe({ type: 'resource' });
    document.addEventListener('DOMContentLoaded', () => {
      const main = document.getElementById('main');
      if (!main) return;
      const rows = () => main.querySelectorAll('tr[data-key]').forEach((row) => seen.rows.add(row.dataset.key));
      rows();
      new MutationObserver(() => { seen.updates += 1; rows(); })
        .observe(main, { childList: true, subtree: true, characterData: true, attributes: true });
    });
    let last = performance.now();
    requestAnimationFrame(function next(now) {
      seen.frames += 1; seen.gap = Math.max(seen.gap, now - last); last = now;
      requestAnimationFrame(next);
    });
";

/// Begins to count again, from zero.
const AGAIN: &str = "Object.assign(seen, { changes: 0, reads: 0, updates: 0, rows: new Set(), long: [], frames: 0, gap: 0, since: performance.now() });";

const READ: &str = "(() => { const seconds = (performance.now() - seen.since) / 1000; const each = (n) => n / seconds; \
    return { seconds, changes: each(seen.changes), reads: each(seen.reads), updates: each(seen.updates), rows: seen.rows.size, \
    long: seen.long.length, longest: Math.max(0, ...seen.long), frames: each(seen.frames), gap: seen.gap }; })()";

/// Submits tasks at the rate until the time is over, and returns how many there were.
async fn submit(client: &Client, page: usize) -> usize {
    let mut tick = tokio::time::interval(Duration::from_secs(1) / BATCHES);
    tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (begun, mut count) = (Instant::now(), 0);
    while begun.elapsed() < TIME {
        tick.tick().await;
        let tasks =
            (count..count + BATCH).map(|n| NewTask::new("report").id(format!("live-{page}-{n}")));
        for submitted in client.submit_many(tasks).await {
            submitted.unwrap();
        }
        count += BATCH;
    }
    count
}

pub(super) async fn measure(served: &Served, browser: &Browser) {
    let source = json!({ "source": OBSERVE });
    browser
        .devtools("Page.addScriptToEvaluateOnNewDocument", &source)
        .await;
    let client = Client::new(&served.store);
    for (page, (name, path)) in [("overview", "/"), ("tasks", "/tasks")]
        .into_iter()
        .enumerate()
    {
        browser.open(&served.url(path)).await;
        let live = "document.documentElement.dataset.live === 'on'";
        browser.until("the script", live).await;
        browser.run("window.kept = document.querySelector('h1'); getSelection().selectAllChildren(window.kept); scrollTo(0, 60);").await;
        browser.run(AGAIN).await;
        let begun = Instant::now();
        let submitted = submit(&client, page).await;
        let took = begun.elapsed();
        let read: Value = browser.value(READ).await;
        let kept = "[document.querySelector('h1') === window.kept, getSelection().toString() === window.kept.innerText, scrollY]";
        let kept = browser.value(kept).await;
        println!(
            "{name}: {submitted} submits in {took:?}; {read}; heading, selection, scroll: {kept}"
        );
        assert!(
            read["updates"].as_f64().unwrap() > 0.5,
            "{name} follows: {read}"
        );
    }
}
